package org.apache.kafka.common.test;

import oncelog.kafkatests.Clusters;

/** Stands in the place of the class of this name in Kafka 4.0's test kit: one broker. */
public class TestKitNodes {
    /** What a test asks for. */
    public static class Builder {
        public Builder setNumBrokerNodes(int number) {
            if (number != 1) {
                throw Clusters.needs(number + " brokers");
            }
            return this;
        }

        public Builder setNumControllerNodes(int number) {
            return this;
        }

        public TestKitNodes build() {
            return new TestKitNodes();
        }
    }
}
