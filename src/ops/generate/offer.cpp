// The operators of what is generated or rearranged from a shape, and their tactics.
#include "ops/generate/offer.h"

#include <algorithm>
#include <string_view>

#include "ops/generate/family.h"

namespace smelt::ops {
namespace {

constexpr std::string_view generators[] = {"Trilu",           "EyeLike", "OneHot",       "ConstantOfShape", "Range",
                                           "ReverseSequence", "Tile",    "DepthToSpace", "SpaceToDepth"};

bool is_generator(const Node& n) {
  return n.domain.empty() && std::ranges::find(generators, std::string_view(n.op)) != std::end(generators);
}

constexpr std::string_view random[] = {"RandomNormal",      "RandomNormalLike", "RandomUniform",
                                       "RandomUniformLike", "Bernoulli",        "Multinomial"};

bool is_random(const Node& n) {
  return n.domain.empty() && std::ranges::find(random, std::string_view(n.op)) != std::end(random);
}

constexpr OperatorTactics operators[] = {
    {is_generator, offer_generate_cpu, offer_generate_cuda},
    {is_random, offer_random_cpu, offer_random_cuda},
};

}  // namespace

constinit const TacticFamily generate_family{operators};

}  // namespace smelt::ops
