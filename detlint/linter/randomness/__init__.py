"""Random draws: what is seeded, from what, and whether a drawn value decides anything."""
