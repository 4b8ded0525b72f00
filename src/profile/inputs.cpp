#include "profile/inputs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numbers>
#include <optional>
#include <random>

#include "base/error.h"
#include "base/file.h"
#include "base/npy.h"
#include "graph/graph.h"
#include "ops/core/facts.h"
#include "ops/cpu/parallel.h"
#include "profile/guesses.h"

namespace smelt::profile {
namespace {

std::string names_of(const std::vector<TensorInfo>& infos) {
  std::vector<std::string> names;
  for (const TensorInfo& i : infos) names.push_back(i.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// One more than the largest index that an integer input may hold: the extent of the smallest table from which a Gather takes
// rows with it.
std::optional<int64_t> index_limit(const Graph& g, ValueId v, int depth = 0) {
  std::optional<int64_t> limit;
  for (const Use& use : g.readers(v)) {
    const Node& n = g.node(use.node);
    std::optional<int64_t> here;
    if (n.is("Gather") && use.input == 1) {
      const Value& table = g.value(n.in(0));
      const int64_t axis = n.get_int("axis", 0);
      if (table.shape && axis >= 0 && axis < static_cast<int64_t>(table.shape->size()) &&
          (*table.shape)[static_cast<size_t>(axis)].known())
        here = (*table.shape)[static_cast<size_t>(axis)].value;
    } else if (depth < 4 && (n.is("Cast") || ops::facts(n).elements == ops::Elements::in_order)) {
      if (use.input == 0) here = index_limit(g, n.out(), depth + 1);
    }
    if (here && (!limit || *here < *limit)) limit = here;
  }
  return limit;
}

// A counter-based generator (SplitMix64): the same numbers on every machine, unlike the standard library's distributions.
struct Random {
  static constexpr uint64_t step = 0x9e3779b97f4a7c15ull;
  uint64_t state;
  /// The state after so many calls of next().
  Random after(int64_t count) const { return {state + static_cast<uint64_t>(count) * step}; }
  uint64_t next() {
    uint64_t z = (state += step);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  double uniform() { return (static_cast<double>(next() >> 11) + 0.5) * 0x1.0p-53; }
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }  // Box–Muller
};

// trtexec takes names in quotes.
std::string unquoted(const std::string& name) {
  return name.size() > 1 && name.front() == '\'' && name.back() == '\'' ? name.substr(1, name.size() - 2) : name;
}

/// Of input k: floats and the parts of complex numbers standard normal, bool fair, integers uniform over the rows of the tables they index (Gather), else 0…9.
Tensor random_input(const Plan& plan, size_t k, Shape shape, uint64_t seed) try {
  const TensorInfo& info = plan.inputs()[k];
  const Random first{hash_bytes(info.name.data(), static_cast<int64_t>(info.name.size())) ^ (seed * 0x2545f4914f6cdd1dull)};
  if (info.type == DType::string)
    return Tensor::of_strings(shape, std::vector<std::string>(static_cast<size_t>(elements(shape)), "smelt"));
  const bool is_complex = info.type == DType::c64 || info.type == DType::c128;
  const Shape given = shape;
  if (is_complex) shape.push_back(2);
  const int64_t n = elements(shape);
  Tensor wide = Tensor::empty(DType::f64, std::move(shape));
  double* p = wide.data<double>();
  // Each element takes `draws` numbers of the generator.
  const auto fill = [&](const auto& draw, int64_t draws) {
    ops::parallel(ops::useful_threads(threads::team_threads(), n * 64), n, 1, [&](int64_t begin, int64_t end, int) {
      Random random = first.after(begin * draws);
      for (int64_t i = begin; i < end; ++i) p[i] = draw(random);
    });
  };
  if (is_float(info.type) || is_complex) {
    fill([](Random& random) { return random.normal(); }, 2);
  } else {
    const ValueId v = plan.graph().find_value(info.name);
    const int64_t limit = info.type == DType::boolean ? 2 : v == ValueId::none ? 10 : index_limit(plan.graph(), v).value_or(10);
    const auto values = static_cast<uint64_t>(std::max<int64_t>(limit, 1));
    fill([values](Random& random) { return static_cast<double>(random.next() % values); }, 1);
  }
  if (!is_complex) return wide.cast(info.type);
  const auto parts = std::make_shared<Tensor>(wide.cast(info.type == DType::c64 ? DType::f32 : DType::f64));
  return Tensor::borrow(info.type, given, parts->raw(), parts);
} catch (const Error& e) {
  throw e.at(fmt::format("input '{}'", plan.inputs()[k].name));  // more than there is memory for
}

}  // namespace

std::map<std::string, Shape> parse_shapes(const std::string& text) {
  std::map<std::string, Shape> shapes;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = text.find(',', at);
    if (end == std::string::npos) end = text.size();
    const std::string part = text.substr(at, end - at);
    // Names may hold colons ("input:0"), so the last one separates.
    const size_t colon = part.rfind(':');
    if (colon == std::string::npos || colon == 0) fail_usage("--shapes: '{}' is not NAME:1x3x224x224", part);
    Shape shape;
    const char *p = part.data() + colon + 1, *stop = part.data() + part.size();
    while (p < stop && std::string_view(p, static_cast<size_t>(stop - p)) != "scalar") {
      int64_t extent = 0;
      const auto r = std::from_chars(p, stop, extent);
      if (r.ec != std::errc() || extent < 0 || (r.ptr < stop && *r.ptr != 'x'))
        fail_usage("--shapes: '{}' is not NAME:1x3x224x224", part);
      shape.push_back(extent);
      p = r.ptr < stop ? r.ptr + 1 : r.ptr;
    }
    shapes[unquoted(part.substr(0, colon))] = shape;
    at = end + 1;
  }
  return shapes;
}

namespace {

/// "1x3x48x64:320:640"; nothing where it is no such list. `ranges`: set where an extent ranges.
std::optional<ShapeRange> parse_range(std::string_view text, bool& ranges) {
  ShapeRange r;
  const char *p = text.data(), *const stop = text.data() + text.size();
  const auto number = [&](Shape& to) {
    int64_t extent = 0;
    const auto read = std::from_chars(p, stop, extent);
    if (read.ec != std::errc() || extent < 0) return false;
    p = read.ptr;
    to.push_back(extent);
    return true;
  };
  if (text == "scalar") return r;
  for (;;) {
    if (!number(r.min)) return std::nullopt;
    if (p < stop && *p == ':') {
      ranges = true;
      if (!number((++p, r.opt)) || p == stop || *p != ':' || !number((++p, r.max))) return std::nullopt;
    } else {
      r.opt.push_back(r.min.back());
      r.max.push_back(r.min.back());
    }
    if (p == stop) return r;
    if (*p++ != 'x') return std::nullopt;
  }
}

}  // namespace

std::vector<ShapeProfile> parse_profiles(const std::string& text) {
  std::vector<ShapeProfile> profiles;
  bool ranges = text.find(';') != std::string::npos;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(';', at), text.size());
    ShapeProfile& profile = profiles.emplace_back();
    while (at < end) {
      const size_t stop = std::min(text.find(',', at), end);
      const std::string part = text.substr(at, stop - at);
      // Names may hold colons ("input:0"): the first one behind which there are extents only separates.
      std::optional<ShapeRange> range;
      size_t colon = part.find(':');
      for (; colon != std::string::npos && colon > 0; colon = part.find(':', colon + 1)) {
        bool is_range = false;
        range = parse_range(std::string_view(part).substr(colon + 1), is_range);
        if (!range) continue;
        ranges = ranges || is_range;
        break;
      }
      if (!range) fail_usage("--shapes: '{}' is not NAME:1x3x48x320, nor NAME:1x3x48x64:320:640 with min:opt:max", part);
      profile[unquoted(part.substr(0, colon))] = *std::move(range);
      at = stop + 1;
    }
    at = std::max(at, end + 1);
  }
  return ranges ? profiles : std::vector<ShapeProfile>();
}

std::vector<Shape> resolve_shapes(const std::vector<TensorInfo>& inputs, const std::map<std::string, Shape>& shapes) {
  for (const auto& [name, shape] : shapes)
    if (std::none_of(inputs.begin(), inputs.end(), [&name = name](const TensorInfo& i) { return i.name == name; }))
      fail_usage("--shapes: the model has no input '{}'; its inputs are {}", name, names_of(inputs));
  std::map<std::string, int64_t> symbols;
  for (const TensorInfo& i : inputs) {
    const auto given = shapes.find(i.name);
    if (given == shapes.end()) continue;
    if (given->second.size() != i.shape.size())
      fail_usage("--shapes: input '{}' has rank {} ({}), found {}", i.name, i.shape.size(), to_string(i.shape),
                 to_text(given->second));
    for (size_t d = 0; d < i.shape.size(); ++d) {
      const Dim& dim = i.shape[d];
      const int64_t n = given->second[d];
      if (dim.known() && dim.value != n)
        fail_usage("--shapes: input '{}' is {}, found {}", i.name, to_string(i.shape), to_text(given->second));
      if (dim.known() || dim.symbol.empty()) continue;
      const auto [at, fresh] = symbols.emplace(dim.symbol, n);
      if (!fresh && at->second != n) fail_usage("--shapes: dimension '{}' is {} and {}", dim.symbol, at->second, n);
    }
  }
  std::vector<Shape> out;
  for (const TensorInfo& i : inputs) {
    const auto given = shapes.find(i.name);
    if (given != shapes.end()) {
      out.push_back(given->second);
      continue;
    }
    Shape s;
    for (const Dim& d : i.shape) {
      const auto known = symbols.find(d.symbol);
      s.push_back(d.known() ? d.value : !d.symbol.empty() && known != symbols.end() ? known->second : 1);
    }
    out.push_back(s);
  }
  return out;
}

std::vector<Tensor> load_inputs(const Plan& plan, const std::vector<std::string>& files,
                                const std::map<std::string, Shape>& shapes, const std::map<std::string, Tensor>& feeds,
                                uint64_t seed) {
  std::map<std::string, Tensor> given;
  std::map<std::string, std::string> raw;
  for (const std::string& file : files) {
    if (file.ends_with(".npz")) {
      for (auto& [name, t] : read_npz(file)) given[name] = std::move(t);
      continue;
    }
    const size_t colon = file.rfind(':');
    if (colon == std::string::npos) fail_usage("--inputs: '{}' is neither an .npz file nor NAME:FILE", file);
    const std::string name = unquoted(file.substr(0, colon)), path = file.substr(colon + 1);
    if (path.ends_with(".npy"))
      given[name] = read_npy(path);
    else
      raw[name] = path;
  }
  const auto& infos = plan.inputs();
  const auto check = [&](const std::string& name) {
    if (std::none_of(infos.begin(), infos.end(), [&](const TensorInfo& i) { return i.name == name; }))
      fail_usage("--inputs: the model has no input '{}'; its inputs are {}", name, names_of(infos));
  };
  std::map<std::string, Shape> known = shapes;
  for (const auto& [name, t] : given) check(name), known[name] = t.shape();
  for (const auto& [name, path] : raw) check(name);
  for (const auto& [name, t] : feeds) known[name] = t.shape();
  const std::vector<Shape> resolved = resolve_shapes(infos, known);
  std::vector<Tensor> inputs;
  std::vector<bool> is_random(infos.size());
  for (size_t k = 0; k < infos.size(); ++k) {
    const TensorInfo& info = infos[k];
    if (const auto feed = feeds.find(info.name); feed != feeds.end()) {
      inputs.push_back(feed->second);
    } else if (auto at = given.find(info.name); at != given.end()) {
      Tensor t = at->second;
      // ml_dtypes arrays say only their width.
      const bool only_width = t.type() == DType::bf16 || t.type() == DType::f8e4m3fn;
      if (t.type() != info.type && bits(t.type()) == bits(info.type) && only_width)
        t = Tensor::borrow(info.type, t.shape(), t.raw(), std::make_shared<Tensor>(t));
      if (t.type() != info.type) fail_usage("--inputs: '{}' is {}, expected {}", info.name, name(t.type()), name(info.type));
      inputs.push_back(t);
    } else if (auto file = raw.find(info.name); file != raw.end()) {
      const auto mapped = MappedFile::open(file->second);
      const int64_t need = bytes(info.type, elements(resolved[k]));
      if (mapped->size() != need)
        fail_usage("--inputs: {} has {} bytes, input '{}' of {} {} needs {}", file->second, mapped->size(), info.name,
                   name(info.type), to_text(resolved[k]), need);
      Tensor& t = inputs.emplace_back(Tensor::empty(info.type, resolved[k]));
      std::memcpy(t.raw(), mapped->data(), static_cast<size_t>(mapped->size()));
    } else {
      inputs.push_back(random_input(plan, k, resolved[k], seed));
      is_random[k] = true;
    }
  }
  remember(guesses_of(infos, known, is_random, inputs));
  return inputs;
}

}  // namespace smelt::profile
