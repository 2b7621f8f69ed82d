// SPDX-License-Identifier: MIT
//
// What an ELF file says about its functions: symbol tables, linkage stubs, unwind information.
// All addresses are turned into file offsets of the *module*; a separate debug file repeats the
// module's addresses but not its offsets.
#pragma once

#include <cstdint>

#include "symbols/elf_file.h"
#include "symbols/symbol_table.h"

namespace shadowprof::symbols {

// Adds the functions in the symbol tables of `type` (SHT_SYMTAB or SHT_DYNSYM) of `file`, which is
// the module itself or a debug file of it. `bias` is what the module's link-time addresses have
// over the file's (0 unless one of them was prelinked).
void collect_symbols(const ElfFile& file, uint32_t type, const AddressMap& module, uint64_t bias,
                     SymbolSources& sources);

// Stubs of the procedure linkage table, found by what they jump through: works for the classic
// layout, -z ibtplt (.plt.sec), -z now (.plt.got) and other linkers' variants alike.
void collect_plt_stubs(const ElfFile& module, SymbolSources& sources);

// Where functions begin and end according to the frame descriptions in .eh_frame, which stripping
// leaves in place.
void collect_function_bounds(const ElfFile& module, SymbolSources& sources);

}  // namespace shadowprof::symbols
