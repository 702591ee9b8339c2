package kafka.server;

import kafka.server.metadata.KRaftMetadataCache;

/** Stands in the place of the class of this name: all that a test asks is whether there is a broker. */
public class BrokerServer {
    public KRaftMetadataCache metadataCache() {
        return new KRaftMetadataCache();
    }
}
