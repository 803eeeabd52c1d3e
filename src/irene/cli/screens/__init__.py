"""What commands put on a terminal."""
