"""The tour: the page over a whole stack, as a user sees it, checked and photographed."""
