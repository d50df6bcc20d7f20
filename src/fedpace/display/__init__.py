"""How values look in a notebook: figures that display, and pieces of HTML that fit a light or a dark page."""
