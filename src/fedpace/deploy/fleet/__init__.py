"""How a server's fleet is: counted as messages pass, told to the run store and to Prometheus every second."""
