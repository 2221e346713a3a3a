"""Okabe and Ito's colours, told apart by every kind of colour vision."""

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444",
)  # fmt: skip
#: For lines that are told apart by their order alone.
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
