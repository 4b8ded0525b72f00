// Scans that cut a signal into frames.
#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/equivalence.h"

namespace smelt::fuse {
namespace {

/// signal [2, state], samples [2, 5, hop] → frames [2, 5, state + hop] by a Scan along axis 1.
struct Sliding : Builder {
  std::shared_ptr<Graph> body;
  ValueId last, frames;

  explicit Sliding(int64_t state, int64_t hop, int64_t dropped = -1, std::map<std::string, Attribute> attrs = {}) {
    Builder inner;
    const ValueId before = inner.input("before", {2, state}), now = inner.input("now", {2, hop});
    const ValueId frame = inner.node("frame", "Concat", {before, now}, {2, state + hop}, DType::f32, {{"axis", int64_t{-1}}});
    const int64_t begin = dropped < 0 ? hop : dropped;
    const ValueId next = inner.node("next", "Slice", {frame, inner.ints({begin}), inner.ints({INT64_MAX}), inner.ints({-1})},
                                    {2, state + hop - begin});
    inner.output(next);
    inner.output(frame);
    body = std::make_shared<Graph>(std::move(inner.g));
    const ValueId x = input("x", {2, state}), y = input("y", {2, 5, hop});
    const SymShape stacked{2, 5, state + hop};
    last = g.add_value("last", DType::f32, SymShape{2, state});
    frames = g.add_value("frames", DType::f32, stacked);
    attrs.insert({{"body", GraphPtr(body)},
                  {"num_scan_inputs", int64_t{1}},
                  {"captured", int64_t{0}},
                  {"scan_input_axes", std::vector<int64_t>{1}},
                  {"scan_output_axes", std::vector<int64_t>{1}}});
    g.add_node(
        {.op = "Scan", .name = "scan", .opset = 20, .inputs = {x, y}, .outputs = {last, frames}, .attrs = std::move(attrs)});
    output(node("result", "Neg", {frames}, stacked));
  }
};

TEST(ScanFrames, become_slices_whatever_part_of_a_hop_the_state_is) {
  for (const auto& [state, hop] :
       std::vector<std::pair<int64_t, int64_t>>{{24, 16}, {8, 16}, {16, 16}, {32, 16}, {1, 3}, {5, 1}}) {
    Sliding s(state, hop);
    const Ledger ledger = rewrite_and_compare(s.g, {"scan_frames"});
    EXPECT_EQ(matches(ledger, "scan_frames"), 1u) << state << ' ' << hop;
    EXPECT_EQ(count(s.g, "Scan"), 0u);
  }
}

TEST(ScanFrames, stay_a_scan_whose_body_drops_another_number_than_the_hop) {
  Sliding s(16, 8, 4);
  EXPECT_EQ(verdict(s, scan_frames, "scan"), "unsupported by scan");
}

TEST(ScanFrames, stay_a_scan_whose_body_computes) {
  Sliding s(16, 8);
  s.body->edit(s.body->find_node("frame")).op = "Max";
  EXPECT_EQ(verdict(s, scan_frames, "scan"), "unsupported by scan");
}

TEST(ScanFrames, stay_a_scan_whose_last_state_is_read) {
  Sliding s(16, 8);
  s.output(s.node("other", "Neg", {s.last}, {2, 16}));
  EXPECT_EQ(verdict(s, scan_frames, "scan"), "extra_reader by scan");
}

TEST(ScanFrames, stay_a_scan_that_runs_backwards_or_along_another_axis) {
  Sliding backwards(16, 8, -1, {{"scan_input_directions", std::vector<int64_t>{1}}});
  EXPECT_EQ(verdict(backwards, scan_frames, "scan"), "wrong_attribute by scan");
  Sliding first(16, 8, -1, {{"scan_input_axes", std::vector<int64_t>{0}}});
  EXPECT_EQ(verdict(first, scan_frames, "scan"), "wrong_axis by scan");
}

TEST(ScanFrames, stay_a_scan_of_frames_of_many_hops) {
  Sliding s(16, 1);
  EXPECT_EQ(verdict(s, scan_frames, "scan"), "not_profitable by scan");
}

TEST(ScanFrames, stay_a_scan_of_frames_of_unknown_width) {
  Sliding s(16, 8);
  s.g.set_shape(s.frames, SymShape{2, 5, Dim()});
  EXPECT_EQ(verdict(s, scan_frames, "scan"), "unknown_shape by scan");
}

}  // namespace
}  // namespace smelt::fuse
