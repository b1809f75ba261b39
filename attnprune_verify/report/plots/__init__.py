"""Pictures of instances, bounds and measurements; a separate function computes the data of each picture.

Colours are those of Okabe and Ito, each with a marker and a line style of its own, and the map of the heat maps rises
in lightness alone (cividis), so every picture can be read in grey and by people who see colours differently.
"""
