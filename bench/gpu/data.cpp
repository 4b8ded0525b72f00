// Reductions, softmax, data movement and sorting: every candidate of a problem, the fastest last.
#include "problem.h"

namespace smelt::bench {

void reduce() {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{4096, 4096}, {32768, 1024}, {16384, 8192}, {4096, 91}}) {
    time(problem(fmt::format("sum of rows bf16 [{}, {}]", rows, columns), "ReduceSum",
                 {random(DType::bf16, {rows, columns}), ints({1})}, DType::bf16, {rows, 1}));
    time(problem(fmt::format("sum of columns bf16 [{}, {}]", rows, columns), "ReduceSum",
                 {random(DType::bf16, {rows, columns}), ints({0})}, DType::bf16, {1, columns}));
  }
  time(problem("sum of all f32 [67108864]", "ReduceSum", {random(DType::f32, {1 << 26}), ints({0})}, DType::f32, {1}));
  for (const Shape& s : {Shape{1, 72, 28, 28}, {1, 480, 14, 14}, {1, 960, 7, 7}, {32, 2048, 7, 7}})
    time(problem(fmt::format("mean of images nhwc f16 [{}, {}, {}, {}]", s[0], s[1], s[2], s[3]), "GlobalAveragePool",
                 {random(DType::f16, s)}, DType::f16, {s[0], s[1], 1, 1}, {}, ops::Layout::nhwc));
  time(problem("argmax f16 [64, 32000]", "ArgMax", {random(DType::f16, {64, 32000})}, DType::i64, {64, 1},
               {{"axis", int64_t{1}}}));
}

void softmax() {
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {4096, 4096}, {32768, 1024}, {16384, 8192}, {3234, 91}, {2364, 197}, {64, 32000}, {1, 300000}}) {
    const DType type = columns == 91 ? DType::f32 : DType::bf16;
    time(problem(fmt::format("softmax {} [{}, {}]", name(type), rows, columns), "Softmax", {random(type, {rows, columns})}, type,
                 {rows, columns}));
  }
  time(problem("softmax of columns f16 [32, 256, 4096]", "Softmax", {random(DType::f16, {32, 256, 4096})}, DType::f16,
               {32, 256, 4096}, {{"axis", int64_t{1}}}));
}

void group_norm() {
  for (const ops::Layout layout : {ops::Layout::nhwc, ops::Layout::plain})
    for (const Shape& s :
         {Shape{2, 320, 64, 64}, {2, 960, 64, 64}, {2, 640, 32, 32}, {2, 1280, 16, 16}, {2, 2560, 8, 8}, {1, 128, 512, 512}})
      time(problem(fmt::format("group norm of 32 {} f16 [{}, {}, {}, {}]", ops::name(layout), s[0], s[1], s[2], s[3]),
                   "GroupNormalization", {random(DType::f16, s), random(DType::f16, {s[1]}), random(DType::f16, {s[1]})},
                   DType::f16, s, {{"num_groups", int64_t{32}}}, layout));
}

void movement() {
  const auto index = [](int64_t count, int64_t extent) {
    Tensor t = Tensor::empty(DType::i64, {count});
    for (int64_t i = 0; i < count; ++i) t.data<int64_t>()[i] = i * 7919 % extent;
    return t;
  };
  for (const auto& [count, width] : std::vector<std::pair<int64_t, int64_t>>{{3072, 768}, {4096, 512}, {131072, 512}}) {
    Problem p = problem(fmt::format("embedding f16 {} of [30522, {}]", count, width), "Gather",
                        {random(DType::f16, {30522, width}), index(count, 30522)}, DType::f16, {count, width});
    p.moved = 4 * count * width;
    time(p);
  }
  for (const Shape& s : {Shape{1, 256, 20, 20}, {1, 128, 40, 40}, {2, 1280, 32, 32}})
    time(problem(fmt::format("nearest x2 nhwc f16 [{}, {}, {}, {}]", s[0], s[1], s[2], s[3]), "Resize",
                 {random(DType::f16, s), Tensor(), Tensor::of<float>({4}, {1, 1, 2, 2})}, DType::f16,
                 {s[0], s[1], 2 * s[2], 2 * s[3]},
                 {{"mode", std::string("nearest")},
                  {"coordinate_transformation_mode", std::string("asymmetric")},
                  {"nearest_mode", std::string("floor")}},
                 ops::Layout::nhwc));
  time(problem("pad 1 nhwc f16 [8, 64, 56, 56]", "Pad", {random(DType::f16, {8, 64, 56, 56}), ints({0, 0, 1, 1, 0, 0, 1, 1})},
               DType::f16, {8, 64, 58, 58}, {}, ops::Layout::nhwc));
  for (const auto& [lines, extent, k] :
       std::vector<std::array<int64_t, 3>>{{91, 3234, 300}, {1, 3234, 300}, {1, 300000, 1000}, {4096, 64, 2}}) {
    Problem p = problem(fmt::format("top {} f32 of [{}, {}]", k, lines, extent), "TopK",
                        {random(DType::f32, {lines, extent}), ints({k})}, DType::f32, {lines, k});
    p.outputs.push_back({DType::i64, {lines, k}, ops::Layout::plain, {}, {}});
    time(p);
  }
  time(problem("cumulative sum f32 [64, 65536]", "CumSum", {random(DType::f32, {64, 65536}), Tensor::scalar<int64_t>(1)},
               DType::f32, {64, 65536}));
}

}  // namespace smelt::bench
