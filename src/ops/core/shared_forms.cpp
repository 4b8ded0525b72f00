#include "ops/core/shared_forms.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "smelt/error.h"

namespace smelt::ops {
namespace {

struct Forms {
  std::mutex mutex;
  std::unordered_multimap<uint64_t, std::weak_ptr<const SharedForm>> all;  // by key_of
  size_t pruned = 64;  // once there are twice as many, those that are gone leave
};
Forms& forms() {
  static auto* const all = new Forms;  // plans may end after static objects are gone
  return *all;
}

/// Of the name and of a few words of the constant: what agrees in these is compared whole.
uint64_t key_of(const Tensor& constant, const std::string& name) {
  constexpr int64_t samples = 64, word = 8;
  uint64_t key = hash_bytes(name.data(), static_cast<int64_t>(name.size()));
  const int64_t size = constant.nbytes(), step = std::max(size / samples, word);
  const auto* const data = static_cast<const std::byte*>(constant.raw());
  for (int64_t at = 0; at + word <= size; at += step) key = hash_bytes(data + at, word, key);
  return key;
}

bool is_unchanged(const Tensor& constant) {
  const auto file = MappedFile::holding(constant.raw());
  if (!file) return true;
  try {
    file->check_unchanged();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::shared_ptr<const SharedForm> find_shared(const Tensor& constant, const std::string& name, int64_t form_bytes) {
  const uint64_t key = key_of(constant, name);
  std::vector<std::shared_ptr<const SharedForm>> found;
  {
    Forms& f = forms();
    const std::lock_guard lock(f.mutex);
    const auto [begin, end] = f.all.equal_range(key);
    for (auto at = begin; at != end; ++at)
      if (auto form = at->second.lock()) found.push_back(std::move(form));
  }
  for (const auto& other : found) {
    const Tensor& c = other->constant;
    if (other->name != name || c.nbytes() != constant.nbytes() || other->form.nbytes() != form_bytes || !is_unchanged(c))
      continue;
    if (c.raw() == constant.raw() || std::memcmp(c.raw(), constant.raw(), static_cast<size_t>(c.nbytes())) == 0) return other;
  }
  return nullptr;
}

std::shared_ptr<const SharedForm> share(const Tensor& constant, const std::string& name, const Tensor& form) {
  auto shared = std::make_shared<const SharedForm>(SharedForm{name, constant, form});
  const uint64_t key = key_of(constant, name);
  Forms& f = forms();
  const std::lock_guard lock(f.mutex);
  if (f.all.size() >= 2 * f.pruned) {
    std::erase_if(f.all, [](const auto& entry) { return entry.second.expired(); });
    f.pruned = std::max<size_t>(64, f.all.size());
  }
  f.all.emplace(key, shared);
  return shared;
}

}  // namespace smelt::ops
