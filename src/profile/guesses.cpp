#include "profile/guesses.h"

#include <fmt/ranges.h>

#include <set>
#include <utility>

namespace smelt::profile {
namespace {

Guesses& last() {
  thread_local Guesses guesses;
  return guesses;
}

bool holds_integers(DType t) {
  return t == DType::i8 || t == DType::i16 || t == DType::i32 || t == DType::i64 || t == DType::u8 || t == DType::u16 ||
         t == DType::u32 || t == DType::u64;
}

}  // namespace

Guesses guesses_of(const std::vector<TensorInfo>& infos, const std::map<std::string, Shape>& shapes,
                   const std::vector<bool>& is_random, std::span<const Tensor> inputs) {
  std::set<std::string> given;  // the symbols whose extents a shape gives
  for (const TensorInfo& i : infos)
    if (shapes.contains(i.name))
      for (const Dim& d : i.shape)
        if (!d.known() && !d.symbol.empty()) given.insert(d.symbol);
  Guesses g;
  for (size_t k = 0; k < infos.size(); ++k) {
    const TensorInfo& i = infos[k];
    if (!is_random[k]) continue;
    if (holds_integers(i.type)) g.integers.push_back(i.name);
    if (shapes.contains(i.name)) continue;
    for (const Dim& d : i.shape) {
      if (d.known() || given.contains(d.symbol)) continue;
      g.shapes += fmt::format("{}{}:{}", g.shapes.empty() ? "" : ",", i.name, fmt::join(inputs[k].shape(), "x"));
      break;
    }
  }
  return g;
}

const Guesses& last_guesses() { return last(); }
void remember(Guesses guesses) { last() = std::move(guesses); }

std::string extents_text(const Guesses& g) {
  return g.shapes.empty() ? "" : fmt::format("symbolic extents are 1 where nothing gives them: --shapes={}", g.shapes);
}

std::string advice(const Guesses& g) {
  std::string text;
  if (!g.shapes.empty())
    text = fmt::format("Symbolic extents are 1 where nothing gives them (--shapes={}): give the model's own.", g.shapes);
  if (!g.integers.empty())
    text += fmt::format("{}Integers are random where nothing gives them ({}): give the model's own (--inputs).",
                        text.empty() ? "" : "\n", fmt::join(g.integers, ", "));
  return text;
}

}  // namespace smelt::profile
