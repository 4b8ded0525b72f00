// External data: TensorProto.external_data = {location, offset, length}, bytes of a file beside the model.
#include <sys/mman.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <sstream>

#include "base/error.h"
#include "import/tensors.h"

namespace smelt::importer {
namespace fs = std::filesystem;

namespace {

int64_t number(const std::string& text, const char* key, const std::string& tensor) {
  int64_t v = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (error != std::errc{} || end != text.data() + text.size() || v < 0)
    fail("tensor '{}': external {} is '{}', expected a number of bytes", tensor, key, one_line(text));
  return v;
}

}  // namespace

Tensor zeros_without_memory(DType type, const Shape& shape, const std::string& tensor) {
  const int64_t size = bytes(type, elements(shape));
  if (size == 0) return Tensor::empty(type, shape);
  void* p = mmap(nullptr, static_cast<size_t>(size), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) fail("tensor '{}' ({}{}): no address space for its {} bytes", tensor, name(type), to_string(shape), size);
  std::shared_ptr<void> keep(p, [size](void* q) { munmap(q, static_cast<size_t>(size)); });
  return Tensor::borrow(type, shape, p, keep);
}

namespace {

Tensor mapped(const std::shared_ptr<MappedFile>& file, DType type, const Shape& shape, int64_t offset, const std::string& tensor,
              const std::string& location) {
  const int64_t need = bytes(type, elements(shape));
  if (offset > file->size() || need > file->size() - offset)
    fail("tensor '{}': external data at {} + {} bytes is beyond the end of '{}' ({} bytes)", tensor, offset, need,
         one_line(location), file->size());
  // Mapped pages are read-only; Tensor's interface has no const view, and constants are never written.
  auto* data = const_cast<uint8_t*>(file->data()) + offset;
  Tensor t = Tensor::borrow(type, shape, data, std::shared_ptr<void>(file, data));
  const auto align = static_cast<uintptr_t>(std::clamp(bits(type) / 8, 1, 8));
  return reinterpret_cast<uintptr_t>(data) % align == 0 ? t : t.clone();  // typed access needs the alignment
}

// Whether `path`, with links followed, lies in `folder` or below it. False if it cannot be resolved.
bool inside(const fs::path& path, const fs::path& folder) {
  std::error_code broken;
  const fs::path p = fs::weakly_canonical(path, broken);
  if (broken) return false;
  const fs::path f = fs::weakly_canonical(folder, broken);
  if (broken) return false;
  auto i = p.begin();
  for (const auto& part : f) {
    if (part.empty()) continue;
    if (i == p.end() || *i != part) return false;
    ++i;
  }
  return true;
}

}  // namespace

std::shared_ptr<MappedFile> ExternalData::open(const std::string& location, const std::string& tensor) {
  if (auto it = files_.find(location); it != files_.end()) return it->second;
  const std::string shown = one_line(location);
  if (folder_.empty()) {
    if (missing_reads_as_zero_) return files_[location] = nullptr;
    throw Error(
        fmt::format("tensor '{}': its data lies in a file '{}', and a model that is no file has no folder", tensor, shown),
        "Load the model from its path, or put the weights into it.");
  }
  const fs::path relative = location, folder = folder_;
  if (location.empty() || location.find('\0') != std::string::npos)
    throw Error(fmt::format("tensor '{}': the location of its external data is '{}', expected a file name", tensor, shown));
  if (relative.is_absolute() || *relative.lexically_normal().begin() == "..")
    throw Error(fmt::format("tensor '{}': external data lies in '{}', expected a file in the model's folder", tensor, shown),
                "Move the data file beside the model and make the location relative to it.");
  std::error_code ignored;
  const fs::path path = folder / relative;
  if (fs::is_symlink(fs::symlink_status(path, ignored)) || fs::exists(path, ignored)) {
    if (!inside(path, folder))
      throw Error(fmt::format("tensor '{}': external data '{}' is a link that leaves the model's folder, or leads nowhere",
                              tensor, shown),
                  "Put the file itself beside the model.");
  }
  if (!fs::exists(path, ignored)) {
    if (missing_reads_as_zero_) return files_[location] = nullptr;
    throw Error(fmt::format("tensor '{}': its data file '{}' is missing", tensor, path.string()),
                "Put the file beside the model; `info` and `explain` work without it.");
  }
  if (!fs::is_regular_file(path, ignored)) fail("tensor '{}': external data '{}' is not a regular file", tensor, shown);
  return files_[location] = MappedFile::open(path);
}

void ExternalData::check_seals(const std::string& sealed) const {
  std::istringstream lines(sealed);
  for (std::string line; std::getline(lines, line);) {
    const size_t space = std::min(line.find(' '), line.size());
    const std::string seal = line.substr(0, space), location = line.substr(std::min(space + 1, line.size()));
    const auto at = files_.find(location);
    if (at == files_.end() || !at->second) continue;  // nothing of it is read
    const MappedFile& file = *at->second;
    const auto length = static_cast<int64_t>(seal.size());
    if (file.size() >= length && std::memcmp(file.data() + file.size() - length, seal.data(), seal.size()) == 0) continue;
    throw Error(fmt::format("'{}' is not the data file that this plan was written with", one_line(location)),
                "Make the plan anew, or bring back the file of the same run.");
  }
}

void ExternalData::check_unchanged() const {
  for (const auto& [location, file] : files_)
    if (file) file->check_unchanged();
}

Tensor ExternalData::view(const onnx::TensorProto& proto, DType type, const Shape& shape) {
  const std::string& tensor = proto.name();
  if (type == DType::string) fail("tensor '{}' holds strings, which cannot be external data", tensor);
  std::string location;
  int64_t offset = 0, length = -1;
  for (const auto& e : proto.external_data()) {
    if (e.key() == "location") location = e.value();
    if (e.key() == "offset") offset = number(e.value(), "offset", tensor);
    if (e.key() == "length") length = number(e.value(), "length", tensor);
  }
  const int64_t need = bytes(type, elements(shape));
  if (length >= 0 && length != need)
    fail("tensor '{}' ({}{}) needs {} bytes, its external data has {}", tensor, name(type), to_string(shape), need, length);
  auto file = open(location, tensor);
  Tensor t = file ? mapped(file, type, shape, offset, tensor, location) : zeros_without_memory(type, shape, tensor);
  if (t.nbytes() > 0) {
    // A tensor is a handle: this one shares the bytes and keeps them alive as long as the range is kept.
    auto keep = std::make_shared<Tensor>(t);
    ranges_.push_back({std::shared_ptr<const void>(keep, keep->raw()), t.nbytes(), location, offset});
  }
  return t;
}

}  // namespace smelt::importer
