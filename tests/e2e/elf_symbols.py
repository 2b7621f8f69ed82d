# SPDX-License-Identifier: MIT
"""Symbols of a 64-bit little-endian ELF file, as offsets into the mapping that holds them.

Profiles name code by module and offset, offset 0 being where the file's first byte is (or would be)
mapped, going by the mapping that holds the code; expectations name it by symbol. This is the
translation, with nothing but the standard library.
"""

import struct

PT_LOAD = 1
SHT_SYMTAB = 2


def read_symbols(path):
    """{name: offset} for every named symbol."""
    with open(path, "rb") as f:
        image = f.read()
    if image[:5] != b"\x7fELF\x02":
        raise ValueError(f"{path} is not a 64-bit ELF file")
    program_offset, section_offset = struct.unpack_from("<QQ", image, 32)
    (program_entry, program_count, section_entry, section_count) = struct.unpack_from(
        "<HHHH", image, 54)
    segments = []  # (first address, its offset in the file, bytes in memory)
    for i in range(program_count):
        kind, _, offset, address, _, _, size = struct.unpack_from(
            "<IIQQQQQ", image, program_offset + i * program_entry)
        if kind == PT_LOAD:
            segments.append((address, offset, size))

    def to_offset(value):
        for address, offset, size in segments:
            if address <= value < address + size:
                return value - address + offset
        address, offset, _ = segments[-1]  # behind them all
        return value - address + offset

    symbols = {}
    for i in range(section_count):
        header = struct.unpack_from("<IIQQQQIIQQ", image, section_offset + i * section_entry)
        if header[1] != SHT_SYMTAB:
            continue
        strings = struct.unpack_from("<IIQQQQIIQQ", image, section_offset + header[6] * section_entry)
        for at in range(header[4], header[4] + header[5], 24):
            name_at, _, _, _, value, _ = struct.unpack_from("<IBBHQQ", image, at)
            start = strings[4] + name_at
            name = image[start:image.index(b"\0", start)].decode(errors="replace")
            if name:
                symbols[name] = to_offset(value)
    return symbols


def resolve(symbols, place):
    """The offset of "symbol", "symbol+3" or "symbol-0x10"."""
    for sign in "+-":
        if sign in place:
            name, _, delta = place.partition(sign)
            return symbols[name.strip()] + int(delta, 0) * (1 if sign == "+" else -1)
    return symbols[place]
