#include "base/npy.h"

#include <zlib.h>

#include <cstring>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/file.h"

namespace smelt {
namespace {

struct NumpyType {
  std::string_view descr;
  DType type;
};
constexpr NumpyType numpy_types[] = {
    {"<f4", DType::f32},  {"<f8", DType::f64},      {"<f2", DType::f16}, {"|i1", DType::i8},    {"<i2", DType::i16},
    {"<i4", DType::i32},  {"<i8", DType::i64},      {"|u1", DType::u8},  {"<u2", DType::u16},   {"<u4", DType::u32},
    {"<u8", DType::u64},  {"|b1", DType::boolean},  {"<c8", DType::c64}, {"<c16", DType::c128}, {"<V2", DType::bf16},
    {"|V2", DType::bf16}, {"|V1", DType::f8e4m3fn},
};

uint32_t le(const uint8_t* p, int n) {
  uint32_t v = 0;
  for (int i = 0; i < n; ++i) v |= static_cast<uint32_t>(p[i]) << (8 * i);
  return v;
}

// The value of a key in the header's Python dictionary: text up to the comma that ends it, brackets respected.
std::string_view field(std::string_view header, std::string_view key, const std::string& where) {
  const size_t at = header.find(key);
  if (at == std::string_view::npos) fail("{}: the .npy header has no {}", where, key);
  size_t begin = header.find(':', at);
  if (begin == std::string_view::npos) fail("{}: the .npy header is cut off after {}", where, key);
  ++begin;
  int depth = 0;
  size_t end = begin;
  for (; end < header.size(); ++end) {
    const char c = header[end];
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (depth == 0 && (c == ',' || c == '}')) break;
  }
  std::string_view v = header.substr(begin, end - begin);
  while (!v.empty() && v.front() == ' ') v.remove_prefix(1);
  while (!v.empty() && v.back() == ' ') v.remove_suffix(1);
  return v;
}

/// The bytes of a file, or of a member of an archive, in their order.
class Source {
 public:
  Source(int64_t size, std::string where) : where_(std::move(where)), left_(size) {}
  virtual ~Source() = default;
  int64_t left() const { return left_; }
  const std::string& where() const { return where_; }

  /// No more than are left.
  void read(void* to, int64_t bytes) {
    left_ -= bytes;
    for (auto* at = static_cast<uint8_t*>(to); bytes > 0;) {  // zlib counts in 32 bits
      const auto piece = static_cast<uInt>(std::min<int64_t>(bytes, 1 << 24));
      take(at, piece);
      crc_ = crc32(crc_, at, piece);
      at += piece;
      bytes -= piece;
    }
  }

  /// The checksum of all bytes; reads those that are left.
  uint32_t checksum() {
    std::vector<uint8_t> rest(static_cast<size_t>(std::min<int64_t>(left_, 1 << 16)));
    while (left_ > 0) read(rest.data(), std::min<int64_t>(left_, static_cast<int64_t>(rest.size())));
    return static_cast<uint32_t>(crc_);
  }

 private:
  virtual void take(uint8_t* to, uInt bytes) = 0;

  std::string where_;
  int64_t left_;
  uLong crc_ = 0;
};

class Stored final : public Source {
 public:
  Stored(const uint8_t* data, int64_t size, std::string where) : Source(size, std::move(where)), data_(data) {}

 private:
  void take(uint8_t* to, uInt bytes) override {
    std::memcpy(to, data_, bytes);
    data_ += bytes;
  }

  const uint8_t* data_;
};

class Deflated final : public Source {
 public:
  Deflated(const uint8_t* data, int64_t packed, int64_t size, std::string where)
      : Source(size, std::move(where)), next_(data), packed_(packed) {
    if (inflateInit2(&z_, -MAX_WBITS) != Z_OK) fail("{}: zlib could not start", this->where());
  }
  ~Deflated() override { inflateEnd(&z_); }
  Deflated(const Deflated&) = delete;
  Deflated& operator=(const Deflated&) = delete;

 private:
  void take(uint8_t* to, uInt bytes) override {
    z_.next_out = to;
    z_.avail_out = bytes;
    while (z_.avail_out > 0) {
      if (z_.avail_in == 0) {
        z_.next_in = const_cast<uint8_t*>(next_);
        z_.avail_in = static_cast<uInt>(std::min<int64_t>(packed_, 1 << 30));
        next_ += z_.avail_in;
        packed_ -= z_.avail_in;
      }
      const int rc = inflate(&z_, Z_NO_FLUSH);
      if (z_.avail_out > 0 && (rc != Z_OK || (z_.avail_in == 0 && packed_ == 0))) fail("{}: damaged compressed array", where());
    }
  }

  z_stream z_{};
  const uint8_t* next_;
  int64_t packed_;
};

Tensor parse_npy(Source& source) {
  constexpr int64_t longest_header = 1 << 20;
  const std::string& where = source.where();
  uint8_t start[12];
  if (source.left() < 10) fail("{}: not a .npy file", where);
  source.read(start, 10);
  if (std::memcmp(start, "\x93NUMPY", 6) != 0) fail("{}: not a .npy file", where);
  if (start[6] < 1 || start[6] > 3) fail("{}: version {} of .npy is not known, expected 1, 2 or 3", where, start[6]);
  if (start[6] > 1) source.read(start + 10, std::min<int64_t>(2, source.left()));
  const int64_t header_size = le(start + 8, start[6] > 1 ? 4 : 2);
  if (header_size > std::min(source.left(), longest_header)) fail("{}: the .npy header is cut off", where);
  std::string header(static_cast<size_t>(header_size), ' ');
  source.read(header.data(), header_size);

  const std::string_view descr = field(header, "'descr'", where);
  DType type = DType::undefined;
  for (const NumpyType& t : numpy_types)
    if (descr.size() > 2 && descr.substr(1, descr.size() - 2) == t.descr) type = t.type;
  if (type == DType::undefined) fail("{}: dtype {} is not supported (little-endian numbers and bool are)", where, descr);
  if (field(header, "'fortran_order'", where) != "False")
    fail("{}: the array is in Fortran order; save a C-contiguous one", where);

  Shape shape;
  for (std::string_view dims = field(header, "'shape'", where); !dims.empty();) {
    if (dims.front() < '0' || dims.front() > '9') {
      if (std::string_view("(), L").find(dims.front()) == std::string_view::npos)
        fail("{}: the shape has a '{}', expected extents of 0 and more", where, dims.front());
      dims.remove_prefix(1);
      continue;
    }
    int64_t extent = 0;
    while (!dims.empty() && dims.front() >= '0' && dims.front() <= '9') {
      if (extent > (int64_t{1} << 50)) fail("{}: the shape overflows", where);
      extent = extent * 10 + (dims.front() - '0');
      dims.remove_prefix(1);
    }
    shape.push_back(extent);
  }
  const int64_t need = bytes(type, elements(shape));
  if (need > source.left())
    fail("{}: shape {} of {} needs {} bytes, the file has {}", where, to_string(shape), name(type), need, source.left());
  Tensor t = Tensor::empty(type, shape);
  source.read(t.raw(), need);
  return t;
}

std::string npy_header(const Tensor& t) {
  std::string_view descr;
  for (const NumpyType& n : numpy_types)
    if (n.type == t.type()) {
      descr = n.descr;
      break;
    }
  if (descr.empty() && bits(t.type()) == 8) descr = "|V1";
  if (descr.empty()) fail("a tensor of {} cannot be written as .npy", name(t.type()));
  std::string dims;
  for (int64_t d : t.shape()) dims += fmt::format("{}, ", d);
  if (t.rank() > 1) dims.resize(dims.size() - 2);
  if (t.rank() == 1) dims.resize(dims.size() - 1);
  std::string dict = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, dims);
  dict.append(63 - (10 + dict.size()) % 64, ' ');
  dict += '\n';
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(dict.size() & 0xff);
  header += static_cast<char>(dict.size() >> 8);
  return header + dict;
}

void put(std::string& out, uint64_t v, int n) {
  for (int i = 0; i < n; ++i) out += static_cast<char>(v >> (8 * i));
}

uint64_t le64(const uint8_t* p) { return le(p, 4) | static_cast<uint64_t>(le(p + 4, 4)) << 32; }

constexpr uint32_t local_magic = 0x04034b50, central_magic = 0x02014b50, end_magic = 0x06054b50, end64_magic = 0x06064b50,
                   locator64_magic = 0x07064b50;

}  // namespace

Tensor read_npy(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  Stored source(file->data(), file->size(), path.string());
  return parse_npy(source);
}

std::map<std::string, Tensor> read_npz(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  const uint8_t* data = file->data();
  const int64_t size = file->size();
  const std::string where = path.string();

  // The end record is the last thing in a zip file; a comment of up to 64 KiB may follow it.
  int64_t end = size - 22;
  while (end >= 0 && end > size - 22 - 65536 && le(data + end, 4) != end_magic) --end;
  if (end < 0 || le(data + end, 4) != end_magic) fail("{}: not an .npz file (no zip directory)", where);
  int64_t members = le(data + end + 10, 2), at = le(data + end + 16, 4);
  if (at == 0xffffffff && end >= 20 && le(data + end - 20, 4) == locator64_magic) {
    const uint64_t end64 = le64(data + end - 12);
    if (size < 56 || end64 > static_cast<uint64_t>(size) - 56 || le(data + end64, 4) != end64_magic)
      fail("{}: damaged zip64 directory", where);
    members = static_cast<int64_t>(le64(data + end64 + 32));
    at = static_cast<int64_t>(le64(data + end64 + 48));
  }

  std::map<std::string, Tensor> arrays;
  uint64_t packed_bytes = 0;  // of all members
  for (int64_t i = 0; i < members; ++i) {
    if (at < 0 || at > size - 46 || le(data + at, 4) != central_magic) fail("{}: damaged zip directory", where);
    const int method = static_cast<int>(le(data + at + 10, 2));
    uint64_t packed = le(data + at + 20, 4), plain = le(data + at + 24, 4), local = le(data + at + 42, 4);
    const int64_t name_size = le(data + at + 28, 2), extra_size = le(data + at + 30, 2), comment_size = le(data + at + 32, 2);
    if (at + 46 + name_size + extra_size > size) fail("{}: damaged zip directory", where);
    std::string member(reinterpret_cast<const char*>(data) + at + 46, static_cast<size_t>(name_size));
    // zip64: sizes that do not fit 32 bits are in extra field 1, in this order.
    for (int64_t e = at + 46 + name_size; e + 4 <= at + 46 + name_size + extra_size; e += 4 + le(data + e + 2, 2)) {
      if (le(data + e, 2) != 1) continue;
      int64_t p = e + 4;
      const int64_t stop = std::min<int64_t>(p + le(data + e + 2, 2), size);
      for (uint64_t* v : {&plain, &packed, &local})
        if (*v == 0xffffffffu && p + 8 <= stop) {
          *v = le64(data + p);
          p += 8;
        }
    }
    const auto whole = static_cast<uint64_t>(size);
    if (local > whole || whole - local < 30 || le(data + local, 4) != local_magic) fail("{}: damaged member {}", where, member);
    const uint64_t begin = local + 30 + le(data + local + 26, 2) + le(data + local + 28, 2);
    if (begin > whole || packed > whole - begin) fail("{}: member {} is cut off", where, member);
    packed_bytes += packed;
    if (packed_bytes > whole) fail("{}: member {} lies on top of others", where, member);
    if (plain > packed * 1040 + 4096) fail("{}: member {} claims {} bytes from {}", where, member, plain, packed);

    const std::string place = fmt::format("{}:{}", where, member);
    if (le(data + at + 8, 2) & 1) fail("{}: the member is encrypted", place);
    std::unique_ptr<Source> source;
    if (method == 0)
      source = std::make_unique<Stored>(data + begin, static_cast<int64_t>(packed), place);
    else if (method == 8)
      source = std::make_unique<Deflated>(data + begin, static_cast<int64_t>(packed), static_cast<int64_t>(plain), place);
    else
      fail("{}: zip method {} is not supported (stored and deflated are)", place, method);
    Tensor t = parse_npy(*source);
    if (source->checksum() != le(data + at + 16, 4)) fail("{}: damaged array: its checksum is another", place);
    if (member.ends_with(".npy")) member.resize(member.size() - 4);
    arrays[member] = std::move(t);
    at += 46 + name_size + extra_size + comment_size;
  }
  return arrays;
}

void write_npy(const std::filesystem::path& path, const Tensor& t) {
  AtomicFile file(path);
  file.write(npy_header(t));
  file.write(t.raw(), t.nbytes());
  file.commit();
}

void write_npz(const std::filesystem::path& path, const std::map<std::string, Tensor>& arrays) {
  AtomicFile file(path);
  std::string directory;
  uint64_t at = 0;
  for (const auto& [array, t] : arrays) {
    const std::string member = array + ".npy", header = npy_header(t);
    uLong crc = crc32(0, reinterpret_cast<const uint8_t*>(header.data()), static_cast<uInt>(header.size()));
    for (int64_t i = 0; i < t.nbytes(); i += 1 << 30)
      crc = crc32(crc, static_cast<const uint8_t*>(t.raw()) + i, static_cast<uInt>(std::min<int64_t>(1 << 30, t.nbytes() - i)));
    const uint64_t size = header.size() + static_cast<uint64_t>(t.nbytes());

    // Sizes and offsets always go to the zip64 field, so that arrays above 4 GiB need no second form.
    std::string common;
    put(common, 45, 2), put(common, 0x800, 2), put(common, 0, 2), put(common, 0, 2), put(common, 0x21, 2);
    put(common, crc, 4), put(common, 0xffffffffu, 4), put(common, 0xffffffffu, 4), put(common, member.size(), 2);
    std::string local;
    put(local, local_magic, 4);
    local += common;
    put(local, 20, 2);
    local += member;
    put(local, 1, 2), put(local, 16, 2), put(local, size, 8), put(local, size, 8);
    put(directory, central_magic, 4), put(directory, 45, 2);
    directory += common;
    put(directory, 28, 2), put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 2), put(directory, 0, 4);
    put(directory, 0xffffffffu, 4);
    directory += member;
    put(directory, 1, 2), put(directory, 24, 2), put(directory, size, 8), put(directory, size, 8), put(directory, at, 8);
    file.write(local);
    file.write(header);
    file.write(t.raw(), t.nbytes());
    at += local.size() + size;
  }
  std::string end;
  put(end, end64_magic, 4), put(end, 44, 8), put(end, 45, 2), put(end, 45, 2), put(end, 0, 4), put(end, 0, 4);
  put(end, arrays.size(), 8), put(end, arrays.size(), 8), put(end, directory.size(), 8), put(end, at, 8);
  put(end, locator64_magic, 4), put(end, 0, 4), put(end, at + directory.size(), 8), put(end, 1, 4);
  put(end, end_magic, 4), put(end, 0, 2), put(end, 0, 2), put(end, arrays.size(), 2), put(end, arrays.size(), 2);
  put(end, directory.size(), 4), put(end, 0xffffffffu, 4), put(end, 0, 2);
  file.write(directory);
  file.write(end);
  file.commit();
}

}  // namespace smelt
