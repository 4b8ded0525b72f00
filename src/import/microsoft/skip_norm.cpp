// SkipLayerNormalization and SkipSimplifiedLayerNormalization: a residual (and a bias) added before a norm, whose sum may be a
// result, too.
#include "import/microsoft/heads.h"

namespace smelt::importer::microsoft {
namespace {

void skip_norm(Call& c, const char* norm, const std::vector<Name>& scale_and_bias, int bias) {
  Name total = c.before("Add", {c.input(0), c.input(1)});
  if (c.has(bias)) total = c.before("Add", {total, c.input(bias)});
  c.give(3, total);
  std::vector<Name> inputs{total};
  inputs.insert(inputs.end(), scale_and_bias.begin(), scale_and_bias.end());
  const std::vector<Name> statistics{c.wants(1) ? c.node.output(1) : "", c.wants(2) ? c.node.output(2) : ""};
  c.become(norm, inputs, {MakeAttribute("axis", int64_t{-1}), MakeAttribute("epsilon", c.number("epsilon", 1e-12f))});
  for (size_t i = 0; i < 2 && (!statistics[0].empty() || !statistics[1].empty()); ++i) c.node.add_output(statistics[i]);
}

}  // namespace

// input, skip, gamma, beta?, bias? → y, mean?, inverse deviation?, sum?
void skip_layer_normalization(Call& c) {
  std::vector<Name> scale_and_bias{c.input(2)};
  if (c.has(3)) scale_and_bias.push_back(c.input(3));
  skip_norm(c, "LayerNormalization", scale_and_bias, 4);
}

// input, skip, gamma, bias?
void skip_simplified_layer_normalization(Call& c) {
  c.refuse_output(1, "mean");
  c.refuse_output(2, "inv_std_var");
  skip_norm(c, "SimplifiedLayerNormalization", {c.input(2)}, 3);
}

}  // namespace smelt::importer::microsoft
