"""What a PCIe link can carry.

Rule of this file: data, from the PCI Express base specifications.
"""

#: Bytes per second and lane of each PCIe generation, after the line code.
PCIE_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
#: Billions of transfers per second -> the PCIe generation that makes them.
PCIE_GENERATIONS = {2.5: 1, 5: 2, 8: 3, 16: 4, 32: 5, 64: 6}
