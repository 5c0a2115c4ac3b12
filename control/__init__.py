"""Control: sessions and changes over HTTP. It holds no state of its own: what it knows is on the bus or on disk."""
