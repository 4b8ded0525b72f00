// ArgMax, ArgMin, TopK, CumSum and Hardmax on the processor, over axes and types, against the reference.
#include "ops/reduce/reduce_trial.h"

namespace smelt::ops {
namespace {

TEST(LineTactics, find_extremes_along_any_axis) {
  for (const char* op : {"ArgMax", "ArgMin"}) {
    for (DType type : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i32, DType::i64}) {
      for (int64_t axis : {0, 1, 2}) {
        for (int64_t last : {0, 1}) agrees(reduce_trial(op, type, {4, 9, 130}, {{"axis", axis}, {"select_last_index", last}}), 0);
      }
    }
    Trial nan = reduce_trial(op, DType::f32, {2, 40}, {{"axis", int64_t{1}}});
    nan.inputs[0].data<float>()[13] = nan.inputs[0].data<float>()[20] = std::numeric_limits<float>::quiet_NaN();
    agrees(std::move(nan), 0);
  }
}

TEST(LineTactics, find_extremes_of_lines_of_every_length_around_a_register) {
  for (const char* op : {"ArgMax", "ArgMin"})
    for (DType type : {DType::f32, DType::f64, DType::bf16, DType::i16, DType::u32, DType::u64, DType::i64})
      for (int64_t last : {0, 1})
        for (int64_t length = 1; length <= 37; length += 2)
          for (int64_t axis : {0, 1})
            agrees(reduce_trial(op, type, {length, 38 - length}, {{"axis", axis}, {"select_last_index", last}}), 0);
}

TEST(LineTactics, find_extremes_of_short_rows_and_of_few_columns) {
  for (const char* op : {"ArgMax", "ArgMin"})
    for (DType type : {DType::f32, DType::f64, DType::f16, DType::i8, DType::u8, DType::i64})
      for (int64_t length = 1; length <= 18; ++length)
        for (int64_t last : {0, 1}) {
          const std::map<std::string, Attribute> rule = {{"axis", int64_t{1}}, {"select_last_index", last}};
          agrees(reduce_trial(op, type, {131, length}, rule), 0);
          agrees(reduce_trial(op, type, {1 + length % 3, 40, length}, rule), 0);
          agrees(reduce_trial(op, type, {67, length, 1 + length % 9}, rule), 0);
          if (!is_float(type)) continue;
          Trial nan = reduce_trial(op, DType::f32, {70, length}, rule);
          for (int64_t i = 0; i < 70; i += 3)
            nan.inputs[0].data<float>()[i * length + i % length] = std::numeric_limits<float>::quiet_NaN();
          agrees(std::move(nan), 0);
          Trial columns = reduce_trial(op, DType::f32, {70, length, 3}, rule);
          for (int64_t i = 0; i < 210; i += 4)
            columns.inputs[0].data<float>()[i / 3 * length * 3 + i % length * 3 + i % 3] =
                std::numeric_limits<float>::quiet_NaN();
          agrees(std::move(columns), 0);
        }
}

TEST(LineTactics, find_a_number_that_is_none_first) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const char* op : {"ArgMax", "ArgMin"}) {
    for (int64_t last : {0, 1}) {
      for (int64_t axis : {0, 1}) {
        Trial t = reduce_trial(op, DType::f32, {41, 41}, {{"axis", axis}, {"select_last_index", last}});
        float* x = t.inputs[0].data<float>();
        for (int64_t i = 0; i < 41; ++i) {
          x[i * 41 + (i * 7) % 41] = inf;
          x[i * 41 + (i * 3) % 41] = -inf;
          if (i % 3 != 0) x[i * 41 + (i * 5) % 41] = x[i * 41 + (i * 11) % 41] = nan;
        }
        agrees(std::move(t), 0);
      }
    }
  }
}

TEST(LineTactics, look_for_the_top_few_past_numbers_that_are_none) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t k : {1, 7, 30}) {
    for (int64_t axis : {0, 1}) {
      for (int64_t largest : {0, 1}) {
        const Shape shape = axis == 1 ? Shape{6, 500} : Shape{500, 6};
        Trial t = reduce_trial("TopK", DType::f32, shape, {{"axis", axis}, {"largest", largest}});
        for (int64_t i = 0; i < 3000; i += 611) t.inputs[0].data<float>()[i] = nan;
        t.add(ints({k}), true);
        agrees(std::move(t), 0);
      }
    }
  }
}

TEST(LineTactics, take_the_top_few_and_the_top_many) {
  for (DType type : {DType::f32, DType::f16, DType::i64, DType::u8}) {
    for (int64_t k : {0, 1, 3, 60, 100}) {
      for (int64_t axis : {0, 1}) {
        for (int64_t largest : {0, 1}) {
          if (k == 0) continue;
          const Shape shape = axis == 1 ? Shape{5, 100} : Shape{100, 5};
          Trial t = reduce_trial("TopK", type, shape, {{"axis", axis}, {"largest", largest}});
          t.add(ints({k}), true);
          agrees(std::move(t), 0);
        }
      }
    }
  }
}

TEST(LineTactics, take_the_top_few_of_columns_and_of_short_rows) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (DType type : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i8, DType::u16, DType::u32, DType::i64, DType::u64})
    for (const Shape& shape : {Shape{3, 17, 5}, Shape{2, 8, 131}, Shape{201, 9, 1}, Shape{70, 33, 2}, Shape{5, 300, 7},
                               Shape{131, 31, 1}, Shape{41, 1, 3}, Shape{300, 1, 1}, Shape{66, 128, 1}, Shape{66, 129, 1}})
      for (int64_t k : {1, 2, 3, 8, 9})
        for (int64_t largest : {0, 1}) {
          if (k > shape[1]) continue;
          Trial t = reduce_trial("TopK", type, shape, {{"axis", int64_t{1}}, {"largest", largest}});
          if (type == DType::f32)
            for (int64_t i = 0; i < elements(shape); i += 13) t.inputs[0].data<float>()[i] = nan;
          t.add(ints({k}), true);
          agrees(std::move(t), 0);
        }
}

TEST(LineTactics, take_the_top_few_of_random_rows_with_ties) {
  std::mt19937 random(3);
  constexpr DType types[] = {DType::f32, DType::f16, DType::f64, DType::i32, DType::i64, DType::u8};
  constexpr int64_t lengths[] = {9, 33, 127, 128, 129, 255, 511, 512, 513, 600};
  for (int i = 0; i < 240; ++i) {
    const Shape shape{static_cast<int64_t>(1 + random() % 130), lengths[random() % std::size(lengths)]};
    const double high = random() % 2 ? 5 : 120;  // with few numbers many are equal
    Trial t =
        reduce_trial("TopK", types[random() % std::size(types)], shape, {{"axis", int64_t{1}}, {"largest", int64_t{i % 2}}});
    t.inputs[0] = random_tensor(t.inputs[0].type(), shape, static_cast<unsigned>(i), 0, high);
    if (t.inputs[0].type() == DType::f32 && i % 3 == 0)
      t.inputs[0].data<float>()[random() % static_cast<uint64_t>(elements(shape))] = std::numeric_limits<float>::quiet_NaN();
    t.add(ints({static_cast<int64_t>(1 + random() % 9)}), true);
    SCOPED_TRACE(to_string(shape));
    agrees(std::move(t), 0);
  }
}

TEST(LineTactics, add_up_forwards_and_backwards) {
  for (DType type : {DType::f32, DType::f64, DType::f16, DType::i32, DType::i64}) {
    for (int64_t axis : {0, 1, -1}) {
      for (int64_t exclusive : {0, 1}) {
        for (int64_t reverse : {0, 1}) {
          Trial t = reduce_trial("CumSum", type, {3, 7, 90}, {{"exclusive", exclusive}, {"reverse", reverse}});
          t.add(Tensor::scalar<int64_t>(axis), true);
          agrees(std::move(t), reduce_tolerance(type));
        }
      }
    }
  }
}

TEST(LineTactics, add_up_few_columns) {
  for (const char* op : {"CumSum", "CumProd"})
    for (DType type : {DType::f32, DType::f64, DType::f16, DType::i32, DType::i64})
      for (int64_t columns : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 65, 515})
        for (int64_t flags : {0, 1, 2, 3})
          for (const Shape& shape : {Shape{37, 2, columns}, Shape{2, 9, columns}, Shape{1, 1, columns}, Shape{3, 1, columns}}) {
            Trial t = reduce_trial(op, type, shape, {{"exclusive", flags & 1}, {"reverse", flags >> 1}});
            t.node.opset = 26;
            if (op[3] == 'P') t.inputs[0] = random_tensor(type, shape, 5, 0.5, 2);
            t.add(Tensor::scalar<int64_t>(1), true);
            agrees(std::move(t), 2 * reduce_tolerance(type));
          }
}

TEST(LineTactics, mark_the_largest) {
  for (DType type : {DType::f32, DType::f64, DType::f16})
    for (int64_t axis : {0, 1, 2})
      for (const Shape& shape :
           {Shape{4, 5, 33}, Shape{70, 1, 3}, Shape{9, 600, 16}, Shape{33, 129, 2}, Shape{700, 3, 7}, Shape{3, 4, 300}})
        for (const bool repeats : {false, true}) {  // of equal ones the first
          Trial t = reduce_trial("Hardmax", type, shape, {{"axis", axis}});
          if (repeats) t.inputs[0] = random_tensor(DType::i32, shape, 7, 0, 3).cast(type);
          agrees(std::move(t), 0);
        }
}

}  // namespace
}  // namespace smelt::ops
