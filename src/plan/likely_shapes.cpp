#include "plan/likely_shapes.h"

#include <algorithm>
#include <set>
#include <string>

namespace smelt::plan {
namespace {

/// Whether a guess would be a lot of memory if it were run.
bool is_large(const Shape& shape) {
  constexpr double most_elements = 1 << 24;
  double count = 1;
  for (const int64_t n : shape) count *= static_cast<double>(n);
  return count > most_elements;
}

}  // namespace

std::vector<std::vector<Shape>> likely_shapes(const Graph& g) {
  std::set<std::string> batches;
  bool all_known = true, has_images = false;
  for (const ValueId v : g.inputs()) {
    const auto& shape = g.value(v).shape;
    if (!shape) return {};
    all_known = all_known && is_static(*shape);
    has_images = has_images || (shape->size() == 4 && !(*shape)[2].known());
    if (shape->size() > 1 && !shape->front().known()) batches.insert(shape->front().symbol);
  }
  if (all_known) return {};
  // Networks of images divide by up to 32, and some need more than one pixel behind that; lines of text have these heights; where
  // extents add up, 1 may do; and networks of sounds begin with windows of hundreds of samples.
  struct Extents {
    int64_t most, height;
  };
  std::vector<std::vector<Shape>> all;
  for (const auto [most, height] : {Extents{128, 128}, {128, 48}, {128, 32}, {256, 256}, {1, 1}, {16000, 16000}}) {
    if (height != most && !has_images) continue;
    std::vector<Shape>& shapes = all.emplace_back();
    for (const ValueId v : g.inputs()) {
      const SymShape& open = *g.value(v).shape;
      Shape& shape = shapes.emplace_back();
      for (size_t a = 0; a < open.size(); ++a) {
        const bool is_batch = a == 0 ? open.size() > 1 : !open[a].symbol.empty() && batches.contains(open[a].symbol);
        shape.push_back(open[a].known()                            ? open[a].value
                        : is_batch                                 ? 1
                        : a + 2 == open.size() && open.size() == 4 ? height
                                                                   : most);
      }
    }
    if (std::ranges::any_of(shapes, is_large)) all.pop_back();
  }
  return all;
}

}  // namespace smelt::plan
