#include "report/slower_nodes.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>

#include "support/builder.h"

namespace smelt::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

profile::StepRow step(const std::string& name, const std::string& op, std::vector<std::string> sources, double us) {
  profile::StepRow row;
  row.step.name = name;
  row.step.op = op;
  row.step.tactic = "some";
  row.step.sources = std::move(sources);
  row.us = profile::summarize(std::array{us});
  return row;
}

profile::Profile of(std::vector<profile::StepRow> steps) {
  profile::Profile p;
  for (const profile::StepRow& r : steps) p.steps_us += r.us.median;
  p.steps = std::move(steps);
  return p;
}

/// conv → softmax → last, of which the first and the last are convolutions.
const NamedNodes in_float = {{"conv", {"Conv", {"c"}, {"softmax"}}},
                             {"softmax", {"Softmax", {"s"}, {"conv", "last"}}},
                             {"last", {"Conv", {"y"}, {"softmax"}}}};
/// The same as ONNX Runtime's quantizer writes it.
const NamedNodes quantised = {{"conv_quant", {"QLinearConv", {"c_quantized"}, {"c_DequantizeLinear"}}},
                              {"c_DequantizeLinear", {"DequantizeLinear", {"c"}, {"conv_quant", "softmax"}}},
                              {"softmax", {"Softmax", {"s"}, {"c_DequantizeLinear", "s_QuantizeLinear"}}},
                              {"s_QuantizeLinear", {"QuantizeLinear", {"s_quantized"}, {"softmax", "last_quant"}}},
                              {"last_quant", {"QLinearConv", {"y"}, {"s_QuantizeLinear"}}}};

const std::vector<FloatNode> softmax_in_float = {{"Softmax", {"softmax"}, "no_8_bit_form", "Softmax reads or writes floats", 1}};

TEST(SlowerNodes, are_found_by_name_with_the_conversions_beside_them) {
  const auto before =
      of({step("conv", "Conv", {"conv"}, 10), step("softmax", "Softmax", {"softmax"}, 5), step("last", "Conv", {"last"}, 9)});
  const auto after =
      of({step("conv_quant", "QLinearConv", {"conv_quant"}, 4),
          step("c_DequantizeLinear", "DequantizeLinear", {"c_DequantizeLinear"}, 3), step("softmax", "Softmax", {"softmax"}, 25),
          step("s_QuantizeLinear", "QuantizeLinear", {"s_QuantizeLinear"}, 2),
          step("last_quant", "QLinearConv", {"last_quant"}, 9)});
  const auto rows = slower_nodes({before, in_float}, {after, quantised}, softmax_in_float, {});
  ASSERT_EQ(rows.size(), 3u);  // the first is faster, the last as fast
  EXPECT_THAT(rows[0].nodes, ElementsAre("softmax"));
  EXPECT_EQ(rows[0].before_us, 5);
  EXPECT_EQ(rows[0].after_us, 25);
  EXPECT_EQ(rows[0].reason, "stayed_in_float");
  EXPECT_EQ(rows[0].detail, "Softmax reads or writes floats");
  EXPECT_THAT(rows[1].nodes, ElementsAre("c_DequantizeLinear"));
  EXPECT_TRUE(std::isnan(rows[1].before_us));
  EXPECT_EQ(rows[1].reason, "conversion");
  EXPECT_THAT(rows[1].detail, HasSubstr("beside softmax, which stayed in float"));
  EXPECT_EQ(rows[2].step, "s_QuantizeLinear");
  const Table t = slower_table(rows, before, after);
  EXPECT_EQ(t.rows.size(), 3u);
  EXPECT_THAT(t.note, HasSubstr("longer by 25.0 µs together; all other steps are shorter by 6.00 µs"));
}

TEST(SlowerNodes, are_one_row_where_a_step_stood_for_several) {
  const auto before = of({step("conv", "ai.smelt.Conv", {"conv", "softmax"}, 10)});
  const auto after = of(
      {step("conv_quant", "QLinearConv", {"conv_quant", "c_DequantizeLinear"}, 6), step("softmax", "Softmax", {"softmax"}, 5)});
  const auto rows = slower_nodes({before, in_float}, {after, quantised}, {}, {});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_THAT(rows[0].nodes, ElementsAre("conv", "softmax"));
  EXPECT_EQ(rows[0].longer_us(), 1);
  EXPECT_EQ(rows[0].reason, "more_steps");
  EXPECT_EQ(rows[0].detail, "2 steps instead of 1: conv_quant 6.00 µs, softmax 5.00 µs");
}

TEST(SlowerNodes, say_which_tactic_was_refused) {
  const auto before = of({step("last", "Conv", {"last"}, 9)});
  auto after = of({step("last_quant", "QLinearConv", {"last_quant"}, 12)});
  after.steps[0].step.others = {{"slow", "", "14 µs, slower than 12 µs", "", 14},
                                {"dots", "", "K = 7 must be a multiple of 4", "size", 0}};
  auto rows = slower_nodes({before, in_float}, {after, quantised}, {}, {});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].reason, "tactic_refused");
  EXPECT_EQ(rows[0].detail, "dots cannot run it: K = 7 must be a multiple of 4");
  after.steps[0].step.others.pop_back();
  rows = slower_nodes({before, in_float}, {after, quantised}, {}, {});
  EXPECT_EQ(rows[0].reason, "kernel");
}

TEST(SlowerNodes, are_not_told_by_names_that_were_made_up) {
  // Neither file names its nodes: "Conv_0" is the first of one model and the second of the other.
  const NamedNodes one = {{"Conv_0", {"Conv", {"a"}, {}}}, {"Conv_1", {"Conv", {"b"}, {}}}};
  const NamedNodes other = {{"Conv_0", {"Conv", {"b"}, {}}}, {"Conv_1", {"Conv", {"a"}, {}}}};
  const auto before = of({step("Conv_0", "Conv", {"Conv_0"}, 10), step("Conv_1", "Conv", {"Conv_1"}, 20)});
  const auto after = of({step("Conv_0", "Conv", {"Conv_0"}, 19), step("Conv_1", "Conv", {"Conv_1"}, 15)});
  const auto rows = slower_nodes({before, one}, {after, other}, {}, {});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].step, "Conv_1");
  EXPECT_EQ(rows[0].before_us, 10);
}

TEST(SlowerNodes, within_noise_are_listed_only_where_there_are_no_others) {
  const auto scattered = [](const std::string& name, double least) {
    profile::StepRow row = step(name, "Conv", {name}, 0);
    row.us = profile::summarize(std::array{least, least + 10, least + 20, least + 30});
    return row;
  };
  const auto before = of({scattered("conv", 0), step("last", "Conv", {"last"}, 5)});
  const auto noisy = of({scattered("conv", 1), step("last", "Conv", {"last"}, 5)});
  auto rows = slower_nodes({before, in_float}, {noisy, in_float}, {}, {});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_FALSE(rows[0].beyond_noise);
  EXPECT_THAT(slower_table(rows, before, noisy).note, HasSubstr("no difference is more than the steps' times scatter"));
  const auto clear = of({scattered("conv", 1), step("last", "Conv", {"last"}, 6)});
  rows = slower_nodes({before, in_float}, {clear, in_float}, {}, {});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(slower_table(rows, before, clear).rows.size(), 1u);
}

TEST(SlowerNodes, know_the_nodes_of_a_graph_and_those_beside_them) {
  fuse::Builder b;
  const ValueId x = b.input("x", {8}, DType::u8);
  const ValueId d = b.node("d", "DequantizeLinear", {x, b.scalar(0.5)}, {8});
  b.output(b.node("erf", "Erf", {d}, {8}));
  const NamedNodes nodes = named_nodes(b.g);
  EXPECT_EQ(nodes.at("d").op, "DequantizeLinear");
  EXPECT_THAT(nodes.at("d").neighbours, ElementsAre("erf"));
  EXPECT_THAT(nodes.at("erf").neighbours, ElementsAre("d"));
  EXPECT_EQ(nodes.at("erf").outputs.size(), 1u);
}

TEST(UnquantizedName, takes_off_what_quantizers_append) {
  EXPECT_EQ(unquantized_name("c_QuantizeLinear_Output"), "c");
  EXPECT_EQ(unquantized_name("y_output_quantized_cast_output"), "y");
  EXPECT_EQ(unquantized_name("y_output_quantized"), "y");
  EXPECT_EQ(unquantized_name("conv_quant"), "conv");
  EXPECT_EQ(unquantized_name("_quant"), "_quant");
  EXPECT_EQ(unquantized_name("quantized_conv"), "quantized_conv");
}

}  // namespace
}  // namespace smelt::report
