"""From an event to the bus without ever blocking or failing its producer: outbox, spool, publisher."""
