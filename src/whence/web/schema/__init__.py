"""What goes over the wire, in both directions. The page's types are generated from these."""
