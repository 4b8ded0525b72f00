#include "inspect/cubin.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/error.h"

namespace smelt::inspect {
namespace {

/// Bytes of the file; every access is checked.
class Bytes {
 public:
  Bytes(std::string_view bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  template <class T> T get(uint64_t at) const {
    T value;
    std::memcpy(&value, piece(at, sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view piece(uint64_t at, uint64_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at)
      fail("not a whole cubin: {} bytes at {} of {}, which has {}", size, at, what_, bytes_.size());
    return bytes_.substr(at, size);
  }
  /// A text that ends with a zero.
  std::string text(uint64_t at) const {
    const size_t end = at < bytes_.size() ? bytes_.find('\0', at) : bytes_.npos;
    if (end == bytes_.npos)
      fail("not a whole cubin: no end of the name at {} of {}, which has {} bytes", at, what_, bytes_.size());
    return std::string(bytes_.substr(at, end - at));
  }
  size_t size() const { return bytes_.size(); }

 private:
  std::string_view bytes_;
  std::string what_;
};

struct Section {
  std::string name;
  uint32_t type = 0, link = 0, info = 0;
  uint64_t flags = 0, offset = 0, size = 0;
};

constexpr uint16_t machine_cuda = 190;
constexpr uint32_t symbol_table = 2, no_bits = 8;

// What an entry of .nv.info says, and the form of its value: none; 8 or 16 bits in the entry; a size and so many bytes behind it.
enum Form : uint8_t { no_value = 1, byte_value, half_value, sized_value };
enum Attribute : uint8_t {
  max_threads = 0x05,
  required_threads = 0x10,
  frame_size = 0x11,
  min_stack_size = 0x12,
  kernel_parameter = 0x17,
  parameter_size = 0x19,
  register_count = 0x2f,
  barrier_count = 0x4c,
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : file_(bytes, "the file") {
    if (bytes.size() < 64) fail("not a whole cubin: {} bytes, and an ELF header has 64", bytes.size());
    if (file_.get<uint8_t>(4) != 2 || file_.get<uint8_t>(5) != 1)
      fail_unsupported("no cubin: an ELF file, but not of 64 bits in little-endian order");
    if (const auto machine = file_.get<uint16_t>(18); machine != machine_cuda)
      fail_unsupported("no cubin: an ELF file of machine {}, and NVIDIA's GPUs are {}", machine, machine_cuda);
    read_sections();
    for (const Section& s : sections_)
      if (s.type == symbol_table) read_symbols(s);
  }

  Image image() {
    Image image{"cubin", arch(), {}};
    for (const Section& s : sections_) {
      if (!s.name.starts_with(".text.") || s.size == 0) continue;
      Kernel k{.entry = s.name.substr(6), .arch = image.arch};
      k.code_bytes = static_cast<int64_t>(s.size);
      if (s.info >> 24) k.registers = static_cast<int>(s.info >> 24);
      if (older()) k.barriers = static_cast<int>((s.flags >> 20) & 0x7f);
      functions_.emplace(k.entry, k);
    }
    if (const Section* all = find(".nv.info")) read_info(*all, nullptr);
    for (auto& [entry, k] : functions_) {
      // A function that kernels call has no parameters of its own, and no description.
      const Section* own = find(".nv.info." + k.entry);
      if (!own) continue;
      read_info(*own, &k);
      if (!k.barriers) k.barriers = 0;
      if (const Section* c = find(".nv.constant0." + k.entry)) k.constant = static_cast<int64_t>(c->size);
      k.static_shared = 0;
      if (const Section* shared = find(".nv.shared." + k.entry)) {
        // From 9.0 on the section begins with what the system keeps of each block's.
        const int64_t kept = find(".nv.shared.reserved.0") ? 1024 : 0;
        k.static_shared = std::max<int64_t>(0, static_cast<int64_t>(shared->size) - kept);
      }
      image.kernels.push_back(k);
    }
    return image;
  }

 private:
  bool older() const { return file_.get<uint8_t>(8) < 8; }
  std::string arch() const {
    const auto flags = file_.get<uint32_t>(48);
    return fmt::format("sm_{}", older() ? flags & 0xff : (flags >> 8) & 0xff);
  }

  void read_sections() {
    const auto begin = file_.get<uint64_t>(40);
    const auto size = file_.get<uint16_t>(58), count = file_.get<uint16_t>(60), names = file_.get<uint16_t>(62);
    if (size < 64) fail("not a whole cubin: its section headers have {} bytes, not 64", size);
    if (names >= count) fail("not a whole cubin: section {} of {} holds the names", names, count);
    const Bytes headers(file_.piece(begin, uint64_t{size} * count), "the section headers");
    std::vector<uint32_t> name_at;
    for (uint64_t at = 0; at < headers.size(); at += size) {
      Section s;
      name_at.push_back(headers.get<uint32_t>(at));
      s.type = headers.get<uint32_t>(at + 4);
      s.flags = headers.get<uint64_t>(at + 8);
      s.offset = headers.get<uint64_t>(at + 24);
      s.size = headers.get<uint64_t>(at + 32);
      s.link = headers.get<uint32_t>(at + 40);
      s.info = headers.get<uint32_t>(at + 44);
      if (s.type == no_bits && s.size > (uint64_t{1} << 32)) fail("not a whole cubin: a section of {} bytes", s.size);
      sections_.push_back(std::move(s));
    }
    const Bytes texts(contents(sections_[names]), "the section names");
    for (size_t i = 0; i < sections_.size(); ++i) {
      sections_[i].name = name(texts, name_at[i]);
      by_name_.emplace(sections_[i].name, i);
    }
  }

  /// Names of a made-up file may be tails of each other: all together they take no more than a few times what it has.
  std::string name(const Bytes& texts, uint64_t at) {
    std::string text = texts.text(at);
    named_bytes_ += text.size();
    if (named_bytes_ > 8 * file_.size()) fail("not a whole cubin: its names lie on top of each other");
    return text;
  }

  std::string_view contents(const Section& s) const { return s.type == no_bits ? "" : file_.piece(s.offset, s.size); }

  const Section* find(std::string_view name) const {
    const auto at = by_name_.find(name);
    return at == by_name_.end() ? nullptr : &sections_[at->second];
  }

  void read_symbols(const Section& s) {
    if (s.link >= sections_.size())
      fail("not a whole cubin: the symbols' names are in section {} of {}", s.link, sections_.size());
    const Bytes symbols(contents(s), "the symbols"), names(contents(sections_[s.link]), "the symbols' names");
    for (uint64_t at = 0; at < symbols.size(); at += 24) {
      symbols.piece(at, 24);
      symbols_.push_back(name(names, symbols.get<uint32_t>(at)));
    }
  }

  /// Entries of one kernel, or of all, by their symbols, where `own` is null.
  void read_info(const Section& s, Kernel* own) {
    const Bytes info(contents(s), s.name);
    for (uint64_t at = 0; at < info.size();) {
      const auto form = info.get<uint8_t>(at), what = info.get<uint8_t>(at + 1);
      if (form != sized_value) {
        if (form < no_value || form > sized_value) fail("not a whole cubin: an entry of form {} at {} of {}", form, at, s.name);
        if (own && what == barrier_count && form == byte_value) own->barriers = info.get<uint8_t>(at + 2);
        if (own && what == parameter_size && form == half_value) own->parameter_bytes = info.get<uint16_t>(at + 2);
        at += 4;
        continue;
      }
      const auto size = info.get<uint16_t>(at + 2);
      const Bytes value(info.piece(at + 4, size), s.name);
      at += 4 + uint64_t{size};
      if (own)
        read_own(what, value, *own);
      else
        read_common(what, value);
    }
  }

  static void read_own(uint8_t what, const Bytes& value, Kernel& k) {
    const auto threads = [&] {
      uint64_t product = 1;
      for (const uint64_t at : {0, 4, 8}) product = std::min<uint64_t>(product * value.get<uint32_t>(at), 1 << 20);
      return static_cast<int>(product);
    };
    if (what == max_threads) k.most_threads = threads();
    if (what == required_threads) k.required_threads = threads();
    if (what == kernel_parameter) ++k.parameters;
  }

  void read_common(uint8_t what, const Bytes& value) {
    if (what != register_count && what != frame_size && what != min_stack_size) return;
    const auto symbol = value.get<uint32_t>(0), number = value.get<uint32_t>(4);
    if (symbol >= symbols_.size()) fail("not a whole cubin: .nv.info names symbol {} of {}", symbol, symbols_.size());
    const auto found = functions_.find(symbols_[symbol]);
    if (found == functions_.end()) return;
    Kernel& k = found->second;
    if (what == register_count) {
      if (number > 256) fail("not a whole cubin: '{}' has {} registers a thread", k.entry, number);
      k.registers = static_cast<int>(number);
    } else {
      k.stack = std::max<int64_t>(k.stack.value_or(0), number);
    }
  }

  Bytes file_;
  size_t named_bytes_ = 0;
  std::vector<Section> sections_;
  std::map<std::string, size_t, std::less<>> by_name_;  // the first of each
  std::vector<std::string> symbols_;
  std::map<std::string, Kernel, std::less<>> functions_;
};

}  // namespace

bool is_elf(std::string_view bytes) {
  return bytes.starts_with(
      "\x7f"
      "ELF");
}

Image read_cubin(std::string_view bytes) {
  if (!is_elf(bytes)) fail("no cubin: it does not begin as an ELF file");
  Image image = Reader(bytes).image();
  if (image.kernels.empty()) fail("the cubin holds no kernel");
  return image;
}

}  // namespace smelt::inspect
