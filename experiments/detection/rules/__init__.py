"""Other tools' rules, each written anew from its published description; where that leaves a number open, it says so."""
