#include "run/feeds.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace smelt::run {
namespace {

/// Levenshtein's distance.
size_t edits(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

std::string list(const std::vector<TensorInfo>& inputs) {
  std::vector<std::string> lines;
  for (const TensorInfo& i : inputs)
    lines.push_back(fmt::format("{} {}{}", i.name, name(i.type), i.rank_known ? to_string(i.shape) : "of any rank"));
  return lines.empty() ? "The model has no inputs" : fmt::format("The model's inputs: {}", fmt::join(lines, ", "));
}

bool fits(const Shape& shape, const SymShape& expected) {
  if (shape.size() != expected.size()) return false;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (expected[i].known() && expected[i].value != shape[i]) return false;
  }
  return true;
}

}  // namespace

std::string nearest(const std::string& name, std::span<const std::string> names) {
  const std::string* best = nullptr;
  size_t fewest = name.size() / 2 + 1;
  for (const std::string& candidate : names) {
    const size_t n = edits(name, candidate);
    if (n < fewest) {
      fewest = n;
      best = &candidate;
    }
  }
  return best ? *best : std::string();
}

std::vector<Tensor> order_feeds(const std::vector<TensorInfo>& inputs, const std::map<std::string, Tensor>& feeds,
                                std::span<const Cache> caches) {
  for (const auto& [name, tensor] : feeds) {
    if (std::ranges::find(inputs, name, &TensorInfo::name) != inputs.end()) continue;
    std::vector<std::string> names;
    for (const TensorInfo& i : inputs) names.push_back(i.name);
    const std::string suggestion = nearest(name, names);
    throw Error(
        fmt::format("there is no input '{}'{}", name, suggestion.empty() ? "" : fmt::format("; did you mean '{}'?", suggestion)),
        list(inputs), ExitCode::usage);
  }
  std::vector<Tensor> ordered;
  for (const TensorInfo& i : inputs) {
    const auto feed = feeds.find(i.name);
    if (std::ranges::find(caches, i.name, &Cache::past) != caches.end()) {
      if (feed != feeds.end()) fail_usage("input '{}' is given both as a tensor and as a cache", i.name);
      ordered.emplace_back();
      continue;
    }
    if (feed == feeds.end()) throw Error(fmt::format("input '{}' is missing", i.name), list(inputs), ExitCode::usage);
    ordered.push_back(feed->second);
  }
  return ordered;
}

std::optional<std::string> misfit(const std::vector<TensorInfo>& inputs, std::span<const Tensor> tensors) {
  std::map<std::string, std::pair<int64_t, const TensorInfo*>> symbols;  // one name is one extent: rewrites rely on it
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo& info = inputs[i];
    const Shape& shape = tensors[i].shape();
    if (!info.rank_known) continue;
    if (shape.size() != info.shape.size()) {
      return fmt::format("input '{}' has shape {} (rank {}), expected {} (rank {})", info.name, to_string(shape), shape.size(),
                         to_string(info.shape), info.shape.size());
    }
    if (!fits(shape, info.shape))
      return fmt::format("input '{}' has shape {}, expected {}", info.name, to_string(shape), to_string(info.shape));
    for (size_t axis = 0; axis < info.shape.size(); ++axis) {
      const std::string& symbol = info.shape[axis].symbol;
      if (info.shape[axis].known() || symbol.empty()) continue;
      const auto [at, fresh] = symbols.try_emplace(symbol, shape[axis], &info);
      if (!fresh && at->second.first != shape[axis])
        return fmt::format("input '{}' has shape {}, in which {} is {}; expected {}, as in input '{}'", info.name,
                           to_string(shape), symbol, shape[axis], at->second.first, at->second.second->name);
    }
  }
  return std::nullopt;
}

void check_inputs(const std::vector<TensorInfo>& inputs, std::span<const Tensor> tensors) {
  if (tensors.size() != inputs.size()) {
    throw Error(fmt::format("{} tensors were given for {} inputs", tensors.size(), inputs.size()), list(inputs), ExitCode::usage);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    const TensorInfo& info = inputs[i];
    const Tensor& t = tensors[i];
    if (!t.valid()) fail_usage("input '{}' is missing", info.name);
    if (t.type() != info.type) fail_usage("input '{}' has type {}, expected {}", info.name, name(t.type()), name(info.type));
  }
  if (const auto found = misfit(inputs, tensors)) fail_usage("{}", *found);
}

}  // namespace smelt::run
