#include <gmock/gmock.h>

#include "fuse/rewrites/rewrites.h"
#include "support/builder.h"

namespace smelt::fuse {
namespace {

constexpr int64_t rows = 3 << 14, width = 64;  // 12 MiB in f32

/// Gather(Mul(Cast(table in i8), scales), indices).
struct Table : Builder {
  ValueId indices, table;
  explicit Table(int64_t count = rows, const Shape& scales = {rows, 1}, int64_t axis = 0) {
    indices = input("indices", {Dim("n"), 5}, DType::i64);
    const ValueId cast =
        node("cast", "Cast", {weights("w", {count, width}, DType::i8)}, {count, width}, DType::f32, {{"to", int64_t{1}}});
    table = node("table", "Mul", {cast, weights("scales", scales)}, {count, width});
    output(node("y", "Gather", {table, indices}, {Dim("n"), 5, width}, DType::f32, {{"axis", axis}}));
  }
};

TEST(GatherFirst, computes_the_rows_that_are_read) {
  for (const Shape& scales : {Shape{rows, 1}, Shape{1, width}, Shape{width}, Shape{1}, Shape{}}) {
    Table t(rows, scales);
    run_only(t.g, "gather_first");
    verify(t.g);
    EXPECT_EQ(count(t.g, "Gather"), scales.size() == 2 && scales[0] == rows ? 2U : 1U) << to_string(scales);
    const Node& last = t.g.node(t.g.value(t.g.outputs()[0]).producer);
    EXPECT_EQ(last.op, "Mul");
    const Node& cast = t.g.node(t.g.producer(t.g.find_node(last.name), 0));
    EXPECT_EQ(cast.op, "Cast");
    EXPECT_EQ(t.g.value(t.g.node(t.g.producer(t.g.find_node(cast.name), 0)).in(0)).type, DType::i8) << "bytes are gathered";
  }
}

TEST(GatherFirst, leaves_small_tables_to_be_folded) {
  Table t(1000, {1000, 1});
  EXPECT_EQ(verdict(t, gather_first, "y"), "not here");
}

TEST(GatherFirst, leaves_columns_alone) {
  Table t(rows, {1}, 1);
  EXPECT_EQ(verdict(t, gather_first, "y"), "not here");
}

TEST(GatherFirst, stays_apart_when_the_table_has_a_second_reader) {
  Table t;
  t.output(t.node("z", "Relu", {t.table}, {rows, width}));
  EXPECT_EQ(verdict(t, gather_first, "y"), "extra_reader by z");
}

TEST(GatherFirst, leaves_what_a_run_gives_alone) {
  Builder b;
  const ValueId x = b.input("x", {rows, width}), i = b.input("i", {3}, DType::i64);
  b.output(b.node("y", "Gather", {b.node("neg", "Neg", {x}, {rows, width}), i}, {3, width}));
  EXPECT_EQ(verdict(b, gather_first, "y"), "not here");
}

}  // namespace
}  // namespace smelt::fuse
