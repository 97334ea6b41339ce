"""Orders that differ from run to run: of sets, of listings, of what completes first; and where they end up."""
