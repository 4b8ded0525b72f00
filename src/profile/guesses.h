// What a run was given that its user did not say: extents and values that the model may not take.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "smelt/session.h"

namespace smelt::profile {

struct Guesses {
  std::string shapes;  // "x:1x3x48x1", as --shapes takes it: of inputs with a symbolic extent that is 1 for want of a better one
  std::vector<std::string> integers;  // inputs of integers that are random, and may index something
  bool operator==(const Guesses&) const = default;
};

/// `shapes`: those that were given; `is_random`: of each input, whether nobody gave its values; `inputs`: those that are bound.
Guesses guesses_of(const std::vector<TensorInfo>& infos, const std::map<std::string, Shape>& shapes,
                   const std::vector<bool>& is_random, std::span<const Tensor> inputs);

/// The guesses of the last load_inputs of this thread.
const Guesses& last_guesses();
void remember(Guesses guesses);

/// "symbolic extents are 1 where nothing gives them (x:1x3x48x1)"; empty where there is none.
std::string extents_text(const Guesses& guesses);
/// What to try where a run failed; empty where nothing was guessed.
std::string advice(const Guesses& guesses);

}  // namespace smelt::profile
