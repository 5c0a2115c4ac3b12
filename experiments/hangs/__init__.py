"""How soon and how rightly a hang is reported: real ranks on gloo that stop in different ways, and some that do not."""
