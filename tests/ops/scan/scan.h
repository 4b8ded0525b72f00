// Random problems of an operator family, of which every candidate is held to the reference: not one that could ever be chosen
// may give a wrong result, whatever the shapes, the layouts, the memory, the threads and what ran before.
#pragma once

#include <functional>
#include <string>

#include "ops/scan/choices.h"
#include "ops/tactic_check.h"

namespace smelt::ops::scan {

/// What tensors of floats hold.
enum class Values : uint8_t {
  whole,  // small whole numbers: sums of products are exact in any order, so that nothing may differ
  real,   // of [-1, 1)
};

/// A problem, and by how much its results may differ from the reference's.
struct Case {
  Trial trial;
  std::vector<std::function<Tensor(uint32_t)>> fills;  // of inputs that are computed: their values by a seed; null for the others
  Values values = Values::whole;
  uint32_t seed = 0;
  double units = 0;      // of the last place of a result in its type
  double roundings = 0;  // of f32 (f64 of such a result), relative to `magnitude`
  double steps = 0;      // of an integer
  /// The largest result as if no term had cancelled another; null: the largest result.
  std::function<double(std::span<const Tensor>)> magnitude;
  int threads = 1;
  std::string same_as;  // the operator whose reference says what it makes; empty: its own

  /// The seed of its values, and its threads.
  void draw(Choices& c) {
    seed = static_cast<uint32_t>(c.below(1000));
    threads = c.of({1, 2, 3, 5});
  }

  /// An input whose values come from `fill`.
  size_t add(const std::function<Tensor(uint32_t)>& fill, bool constant, Layout layout = Layout::plain) {
    const size_t i = trial.add(fill(seed + 31 * static_cast<uint32_t>(fills.size())), constant, layout);
    fills.push_back(constant ? nullptr : fill);
    return i;
  }
  size_t add(const Tensor& constant) {
    fills.emplace_back();
    return trial.add(constant, true);
  }
  void leave_out() {
    fills.emplace_back();
    trial.add(Tensor(), false);
  }
  /// Floats of the case's kind of values, or any integers of the type.
  std::function<Tensor(uint32_t)> numbers(DType type, const Shape& shape, double low = -4, double high = 4) const;

  /// What the reference makes of the inputs.
  std::vector<Tensor> want(std::span<const Tensor> inputs) const;
  /// Declares the outputs that the reference makes; all plain and dense.
  void results();
  /// Makes the tensor a slice of one with some more along its last axis in memory (`axis`), or one that begins anywhere.
  static void widen(BoundTensor& t, int64_t more);
};

using Make = std::function<Case(Choices&)>;

/// One of the families that are scanned.
struct Family {
  std::string name;
  Make make;
};
std::vector<Family> families();

/// What is wrong with the case's candidates; empty: nothing. `ran`: how many candidates were compared; 0: no case.
std::string findings(Case& c, int& ran);

/// Runs `count` cases of a family, from a seed; what was found first, with its smallest form, or nothing.
std::string scan(const Family& family, uint64_t seed, int64_t count, int64_t& ran);

}  // namespace smelt::ops::scan
