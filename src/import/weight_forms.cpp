#include "import/weight_forms.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "base/file.h"
#include "import/export.h"

namespace smelt {
namespace {

/// The text up to `end`, which is taken off its front with it.
std::string_view first(std::string_view& text, char end) {
  const size_t length = std::min(text.find(end), text.size());
  const std::string_view part = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return part;
}

/// A number from 0 to `most`.
std::optional<int64_t> number(std::string_view text, int64_t most) {
  int64_t n = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size() || n < 0 || n > most) return std::nullopt;
  return n;
}

bool is_sealed(const ModelInfo& model, std::string_view file) {
  const auto seals = model.metadata.find(plan_data_key);
  if (seals == model.metadata.end()) return false;
  for (std::string_view rest = seals->second; !rest.empty();) {
    std::string_view line = first(rest, '\n');
    first(line, ' ');
    if (line == file) return true;
  }
  return false;
}

/// The mapping of the data file of that name; null where no constant views it.
std::shared_ptr<const MappedFile> mapping(const ModelInfo& model, std::string_view file) {
  for (const DataRange& r : model.data) {
    if (r.file != file) continue;
    auto mapped = MappedFile::holding(r.bytes.get());  // none: a copy, since typed access needs alignment
    if (mapped && mapped->data() + r.offset == r.bytes.get()) return mapped;
  }
  return nullptr;
}

}  // namespace

std::vector<WeightForm> take_weight_forms(ModelInfo& model) {
  const auto entry = model.metadata.extract(plan_forms_key);
  if (!entry) return {};
  std::string_view rest = entry.mapped();
  const std::string_view name = first(rest, '\n');
  const auto file = is_sealed(model, name) ? mapping(model, name) : nullptr;
  if (!file) return {};
  // Tensor has no const view; the mapping is read-only, and forms are never written.
  const auto tensor = [&](int64_t offset, int64_t bytes) {
    return Tensor::borrow(DType::u8, {bytes}, const_cast<uint8_t*>(file->data()) + offset,
                          std::const_pointer_cast<MappedFile>(file));
  };
  std::vector<WeightForm> forms;
  while (!rest.empty()) {
    std::string_view line = first(rest, '\n');
    const auto offset = number(first(line, ' '), file->size());
    const auto bytes = number(first(line, ' '), file->size() - offset.value_or(0));
    const auto weight = number(first(line, ' '), file->size());
    if (offset && bytes && weight && *offset % form_alignment == 0)
      forms.push_back({tensor(*weight, 0), std::string(line), tensor(*offset, *bytes)});
  }
  return forms;
}

}  // namespace smelt
