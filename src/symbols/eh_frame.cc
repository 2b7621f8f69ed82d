// SPDX-License-Identifier: MIT
//
// Function bounds from .eh_frame. libdw walks the entries (lengths, augmentation strings); the two
// pointers that matter here, start and length of a frame description (FDE), are encoded as its
// common information entry (CIE) says: LSB Core specification, section 10.5 (DW_EH_PE_*).
#include <dwarf.h>
#include <elfutils/libdw.h>

#include <cstring>
#include <unordered_map>

#include "symbols/elf_symbols.h"

namespace shadowprof::symbols {
namespace {

constexpr uint8_t kFormatMask = 0x0F;
constexpr uint8_t kApplicationMask = 0x70;

// Forward over bytes that nobody vouches for; reading past the end fails.
class Cursor {
 public:
  Cursor(const uint8_t* start, const uint8_t* end) : at_(start), end_(end) {}

  template <typename T>
  std::optional<uint64_t> fixed() {
    if (static_cast<size_t>(end_ - at_) < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return static_cast<uint64_t>(static_cast<int64_t>(value));  // sign-extends signed T
  }

  std::optional<uint64_t> encoded(uint8_t format) {
    switch (format & kFormatMask) {
      case DW_EH_PE_absptr:
      case DW_EH_PE_udata8:
      case DW_EH_PE_sdata8:
        return fixed<int64_t>();
      case DW_EH_PE_udata2:
        return fixed<uint16_t>();
      case DW_EH_PE_sdata2:
        return fixed<int16_t>();
      case DW_EH_PE_udata4:
        return fixed<uint32_t>();
      case DW_EH_PE_sdata4:
        return fixed<int32_t>();
      default:
        return std::nullopt;  // LEB128: no compiler uses it for addresses
    }
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
};

// How the CIE's descriptions encode their addresses; nothing where we cannot tell.
std::optional<uint8_t> address_encoding(const Dwarf_CIE& cie) {
  const char* augmentation = cie.augmentation;
  if (augmentation == nullptr || *augmentation == '\0') return DW_EH_PE_absptr;
  if (*augmentation != 'z') return std::nullopt;
  Cursor data(cie.augmentation_data, cie.augmentation_data + cie.augmentation_data_size);
  for (const char* c = augmentation + 1; *c != '\0'; ++c) {
    if (*c == 'R' || *c == 'P' || *c == 'L') {
      std::optional<uint64_t> encoding = data.fixed<uint8_t>();
      if (!encoding) return std::nullopt;
      if (*c == 'R') return static_cast<uint8_t>(*encoding);
      if (*c == 'P' && !data.encoded(static_cast<uint8_t>(*encoding))) return std::nullopt;
    } else if (*c != 'S' && *c != 'B') {
      return std::nullopt;
    }
  }
  return DW_EH_PE_absptr;
}

struct AddressRange {
  uint64_t start = 0;
  uint64_t size = 0;
};

std::optional<AddressRange> decode_range(const Dwarf_FDE& fde, uint8_t encoding,
                                         uint64_t field_address) {
  uint8_t application = encoding & kApplicationMask;
  if ((encoding & DW_EH_PE_indirect) != 0) return std::nullopt;
  if (application != DW_EH_PE_absptr && application != DW_EH_PE_pcrel) return std::nullopt;
  Cursor cursor(fde.start, fde.end);
  std::optional<uint64_t> start = cursor.encoded(encoding);
  std::optional<uint64_t> size = start ? cursor.encoded(encoding) : std::nullopt;
  if (!size || *size == 0) return std::nullopt;
  return AddressRange{*start + (application == DW_EH_PE_pcrel ? field_address : 0), *size};
}

}  // namespace

void collect_function_bounds(const ElfFile& module, SymbolSources& sources) {
  const Section* section = module.section(".eh_frame");
  Elf_Data* data = section != nullptr ? module.data(*section) : nullptr;
  const char* ident = elf_getident(module.handle(), nullptr);
  if (data == nullptr || ident == nullptr) return;
  const auto* base = static_cast<const uint8_t*>(data->d_buf);

  std::unordered_map<uint64_t, std::optional<uint8_t>> encodings;  // by offset of the CIE
  Dwarf_Off offset = 0;
  while (offset < data->d_size) {
    Dwarf_Off next = 0;
    Dwarf_CFI_Entry entry;
    int status = dwarf_next_cfi(reinterpret_cast<const unsigned char*>(ident), data, true, offset,
                                &next, &entry);
    // An entry that libdw refuses may be skipped as long as that leads forward.
    if (status == 1 || next <= offset || next == static_cast<Dwarf_Off>(-1)) return;
    if (status == 0 && dwarf_cfi_cie_p(&entry)) {
      encodings[offset] = address_encoding(entry.cie);
    } else if (status == 0) {
      auto cie = encodings.find(entry.fde.CIE_pointer);
      if (cie != encodings.end() && cie->second) {
        uint64_t field = section->header.sh_addr + static_cast<uint64_t>(entry.fde.start - base);
        auto range = decode_range(entry.fde, *cie->second, field);
        const Segment* segment = range ? module.addresses().segment_of(range->start) : nullptr;
        if (segment != nullptr && segment->executable) {
          uint64_t room = segment->vaddr + segment->file_size - range->start;
          sources.bounds.push_back({range->start - segment->vaddr + segment->offset,
                                    range->size < room ? range->size : room});
        }
      }
    }
    offset = next;
  }
}

}  // namespace shadowprof::symbols
