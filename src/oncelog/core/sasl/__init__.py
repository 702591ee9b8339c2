"""Who a connection is: the server's side of SASL, as machines over bytes. Sockets, delays and logs are the shell's."""
