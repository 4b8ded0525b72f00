// NonMaxSuppression, RoiAlign, NonZero and Compress; the first two against plain kernels, which must agree with them.
#include <cmath>

#include "kernels/detect/nms.h"
#include "ops/detect/roi.h"
#include "ops/select/cuda_sort.h"
#include "problem.h"

namespace smelt::bench {
namespace {

// A block a line: the boxes one after the other, each that is left struck out of the others by all threads. Tested: the cheap test of
// nms.cuh comes first, and what it leaves is compared under a branch, by those threads of a warp whose boxes touch.
constexpr const char* plain_nms = R"(#include "detect/nms.cuh"

struct TakeArgs {
  const float* boxes;
  const Item<u32>* sorted;
  const i64* limit;
  const float* threshold;
  u32 *taken, *counts;
  u32 count, classes, keep;
};
template <bool Tested> __device__ void take_one_by_one(const TakeArgs& a) {
  auto [boxes, sorted, limit, threshold, taken, counts, count, classes, keep] = a;
  __shared__ bool out[8192];
  const u32 line = blockIdx.x;
  boxes += static_cast<u64>(line / classes) * count * 4, sorted += static_cast<u64>(line) * count;
  for (u32 i = threadIdx.x; i < count; i += blockDim.x) out[i] = sorted[i].key == 0xffffffffu;
  __syncthreads();
  u32 total = 0;
  for (u32 i = 0; i < count && total < *limit; ++i) {
    if (out[i]) continue;
    const u32 place = sorted[i].place;
    const ExactBox<false> own(boxes + static_cast<u64>(place) * 4);
    if (threadIdx.x == 0) taken[static_cast<u64>(line) * keep + total] = place;
    ++total;
    for (u32 j = i + 1 + threadIdx.x; j < count; j += blockDim.x) {
      if (out[j]) continue;
      const ExactBox<false> other(boxes + static_cast<u64>(sorted[j].place) * 4);
      if (Tested && !other.corners().touches(own.corners())) continue;
      if (other.overlaps(own, *threshold)) out[j] = true;
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) counts[line] = total;
}
)";

std::unique_ptr<ops::Kernel> plain_nms_kernel(int64_t lines, int64_t count, int64_t keep, bool tested) {
  ops::LaunchPlan plan(tested ? "tested_nms" : "plain_nms", plain_nms);
  ops::LineSort sort;
  sort.source = "ByScore";
  sort.lines = lines, sort.extent = count, sort.keep = count;
  const auto n = static_cast<uint32_t>(count), classes = static_cast<uint32_t>(lines), most = static_cast<uint32_t>(keep);
  const kernels::BoxScores scores{.count = n};
  sort.give = [&](ops::Launch& l) {
    l.args(scores, {{scores.scores, {ops::BufferRef::input, 1}}, {scores.lowest, {ops::BufferRef::input, 4}}});
  };
  const ops::BufferRef sorted = sort.add_to(plan, "sort"), taken = plan.reserve(lines * keep * 4),
                       counts = plan.reserve(lines * 4);
  plan.launch({"take", "1024", "TakeArgs", tested ? "take_one_by_one<true>" : "take_one_by_one<false>"},
              ops::blocks_of(lines * 1024, 1024))
      .input(0)
      .at(sorted)
      .input(2)
      .input(3)
      .at(taken)
      .at(counts)
      .value(n)
      .value(classes)
      .value(most);
  plan.launch({"emit", "256", "EmitTakenArgs", "emit_taken"}, ops::blocks_of(lines * 256, 256))
      .at(taken)
      .at(counts)
      .output(0)
      .output(1)
      .value(classes)
      .value(most)
      .value(uint32_t{1})
      .value(uint32_t{0});
  return ops::launched(std::move(plan), *gpu());
}

// A thread a result, which computes its own places and weights.
constexpr const char* plain_roi_align = R"(#include "common/convert.cuh"

struct RoiArgs {
  const T *x, *rois;
  const i64* items;
  T* y;
  int results, channels, height, width, bins, sampling;
  float scale;
};
__device__ void each_result(const RoiArgs& a) {
  const auto& [x, rois, items, y, results, channels, height, width, bins, sampling, scale] = a;
  const int number = blockIdx.x * 256 + threadIdx.x;
  if (number >= results) return;
  const int column = number % bins, row = number / bins % bins, channel = number / (bins * bins) % channels;
  const int region = number / (bins * bins * channels);
  const T* roi = rois + region * 4;
  const T* map = x + (items[region] * channels + channel) * height * width;
  const float x0 = widened<float>(roi[0]) * scale - 0.5f, y0 = widened<float>(roi[1]) * scale - 0.5f;
  const float across = (widened<float>(roi[2]) * scale - 0.5f - x0) / bins;
  const float down = (widened<float>(roi[3]) * scale - 0.5f - y0) / bins;
  const int nx = sampling > 0 ? sampling : static_cast<int>(ceilf(across));
  const int ny = sampling > 0 ? sampling : static_cast<int>(ceilf(down));
  float sum = 0;
  for (int i = 0; i < ny; ++i) {
    float v = y0 + row * down + (i + 0.5f) * down / ny;
    const bool inside = v >= -1 && v <= height;
    v = fmaxf(v, 0);
    int y1 = static_cast<int>(v), y2 = y1 + 1;
    if (y1 >= height - 1) y1 = y2 = height - 1, v = y1;
    const float below = v - y1;
    for (int j = 0; j < nx; ++j) {
      float h = x0 + column * across + (j + 0.5f) * across / nx;
      if (!inside || !(h >= -1 && h <= width)) continue;
      h = fmaxf(h, 0);
      int x1 = static_cast<int>(h), x2 = x1 + 1;
      if (x1 >= width - 1) x1 = x2 = width - 1, h = x1;
      const float right = h - x1;
      sum += (1 - below) * ((1 - right) * widened<float>(map[y1 * width + x1]) + right * widened<float>(map[y1 * width + x2])) +
             below * ((1 - right) * widened<float>(map[y2 * width + x1]) + right * widened<float>(map[y2 * width + x2]));
    }
  }
  y[number] = narrowed<T>(sum / fmaxf(1, static_cast<float>(nx) * ny));
}
)";

std::unique_ptr<ops::Kernel> plain_roi_align_kernel(const ops::RoiAlign& p, DType type) {
  const auto narrow = [](int64_t v) { return static_cast<int32_t>(v); };
  ops::LaunchPlan plan("plain_roi_align", fmt::format("#include \"common/types.cuh\"\nusing T = {};\n{}",
                                                      type == DType::f16 ? "f16" : "float", plain_roi_align));
  const int64_t results = p.rois * p.channels * p.out_height * p.out_width;
  plan.launch({"roi_align", "256", "RoiArgs", "each_result"}, ops::blocks_of(results, 256))
      .input(0)
      .input(1)
      .input(2)
      .output(0)
      .value(narrow(results))
      .value(narrow(p.channels))
      .value(narrow(p.height))
      .value(narrow(p.width))
      .value(narrow(p.out_width))
      .value(narrow(p.sampling))
      .value(static_cast<float>(p.scale));
  return ops::launched(std::move(plan), *gpu());
}

/// The outputs of one run.
std::vector<Tensor> results(const Problem& p, ops::Kernel& kernel) {
  std::vector<std::shared_ptr<cuda::Memory>> memory;
  const auto place = [&](int64_t bytes) {
    memory.push_back(gpu()->device->allocate(std::max<int64_t>(1, bytes), "a benchmark"));
    return memory.back()->address();
  };
  std::vector<const void*> in;
  std::vector<void*> out;
  const cuda::Device::Current current(*gpu()->device);
  for (const Tensor& t : p.inputs) {
    const auto at = place(t.nbytes());
    cuda::check(cuda::driver().copy_to_device(at, t.raw(), static_cast<size_t>(t.nbytes()), nullptr), "copying");
    in.push_back(reinterpret_cast<const void*>(at));
  }
  for (const ops::BoundTensor& t : p.outputs) out.push_back(reinterpret_cast<void*>(place(ops::storage_bytes(t))));
  kernel.run({in, out, reinterpret_cast<void*>(place(kernel.workspace()))});
  std::vector<Tensor> made;
  for (size_t i = 0; i < out.size(); ++i) {
    made.push_back(Tensor::zeros(p.outputs[i].type, p.outputs[i].shape));
    cuda::check(cuda::driver().copy_to_host(made.back().raw(), reinterpret_cast<cuda::abi::Address>(out[i]),
                                            static_cast<size_t>(made.back().nbytes()), nullptr),
                "copying");
  }
  cuda::check(cuda::driver().stream_synchronize(nullptr), "copying");
  return made;
}

/// Throws where the plain kernel and the candidates differ by more than `tolerance`, over as many results as were found.
void expect_agreement(const Problem& p, ops::Kernel& plain, double tolerance) {
  const std::vector<Tensor> want = results(p, plain);
  const bool counted = want.size() > 1;
  for (const ops::Candidate& c : ops::offer(bound(p), machine()).candidates) {
    const std::vector<Tensor> got = results(p, *c.prepare());
    const int64_t count = counted ? want[1].to_ints()[0] * 3 : want[0].size();
    if (counted && got[1].to_ints() != want[1].to_ints()) fail("{} {}: finds another number", p.name, c.config);
    const std::vector<double> a = got[0].to_doubles(), b = want[0].to_doubles();
    for (int64_t i = 0; i < count; ++i)
      if (!(std::abs(a[static_cast<size_t>(i)] - b[static_cast<size_t>(i)]) <= tolerance))
        fail("{} {}: result {} is {}, the plain kernel's {}", p.name, c.config, i, a[static_cast<size_t>(i)],
             b[static_cast<size_t>(i)]);
  }
}

/// Boxes of an image, or of each class its own beside the others' as batched_nms lays them; classes that share them, with scores.
struct NmsProblem {
  int64_t count, classes, most;
  double share;        // of the scores, above the lowest
  int64_t layers = 1;  // images side by side
  bool slow = false;
};

/// Boxes around 100 objects of each image of 640 pixels.
Problem nms_problem(const NmsProblem& q) {
  std::mt19937 random(3);
  const auto between = [&](float low, float high) { return std::uniform_real_distribution<float>(low, high)(random); };
  Tensor boxes = Tensor::empty(DType::f32, {1, q.count, 4}), scores = Tensor::empty(DType::f32, {1, q.classes, q.count});
  std::vector<std::array<float, 4>> objects(100);
  for (auto& o : objects) o = {between(0, 560), between(0, 560), between(20, 160), between(20, 160)};
  for (int64_t i = 0; i < q.count; ++i) {
    const auto& o = objects[random() % objects.size()];
    float* v = boxes.data<float>() + i * 4;
    v[0] = o[0] + between(-0.3f, 0.3f) * o[2], v[1] = o[1] + between(-0.3f, 0.3f) * o[3];
    v[2] = v[0] + o[2] * between(0.7f, 1.4f), v[3] = v[1] + o[3] * between(0.7f, 1.4f);
    const float beside = 1000 * static_cast<float>(i % q.layers);
    for (int k = 0; k < 4; ++k) v[k] += beside;
  }
  for (int64_t i = 0; i < scores.size(); ++i)
    scores.data<float>()[i] = between(0, 1) < static_cast<float>(q.share) ? between(0.05f, 1) : between(0, 0.05f);
  const auto one = [](float v) { return Tensor::of<float>({1}, {v}); };
  Problem p =
      problem(fmt::format("nms {} boxes {} classes, {} of each, {:.0f}% candidates, {} images", q.count, q.classes, q.most,
                          100 * q.share, q.layers),
              "NonMaxSuppression", {boxes, scores, ints({q.most}), one(0.5f), one(0.05f)}, DType::i64, {q.classes * q.most, 3});
  p.node.outputs = {ValueId{9}};
  p.outputs.push_back({DType::i64, {1}, ops::Layout::plain, {}, {}});
  p.slow = q.slow;
  return p;
}

/// Regions of 32 to 512 pixels in an image of 800 x 1216, whose map has a quarter of that.
Problem roi_problem(DType type, int64_t rois, int64_t sampling) {
  std::mt19937 random(5);
  const auto between = [&](float low, float high) { return std::uniform_real_distribution<float>(low, high)(random); };
  Tensor regions = Tensor::empty(DType::f32, {rois, 4});
  for (int64_t r = 0; r < rois; ++r) {
    float* v = regions.data<float>() + r * 4;
    const float w = 32 * std::exp2(between(0, 4)), h = 32 * std::exp2(between(0, 4));
    v[0] = between(0, 1216 - w), v[1] = between(0, 800 - h), v[2] = v[0] + w, v[3] = v[1] + h;
    for (int i = 0; i < 4; ++i) v[i] = std::floor(v[i] * 2) / 2;  // f16 has these
  }
  return problem(
      fmt::format("roi_align {} [1, 256, 200, 304] {} regions 7x7 sampling {}", name(type), rois, sampling), "RoiAlign",
      {bench::random(type, {1, 256, 200, 304}), regions.cast(type), Tensor::zeros(DType::i64, {rois})}, type, {rois, 256, 7, 7},
      {{"output_height", int64_t{7}}, {"output_width", int64_t{7}}, {"sampling_ratio", sampling}, {"spatial_scale", 0.25f}});
}

std::vector<Other> plain(std::unique_ptr<ops::Kernel> kernel) {
  std::vector<Other> others;
  others.push_back({"plain", std::move(kernel)});
  return others;
}

}  // namespace

void nms(size_t first, size_t last) {
  const std::vector<NmsProblem> problems{{1000, 80, 100, 1},
                                         {3000, 80, 200, 1},
                                         {6000, 80, 200, 1},
                                         {6000, 80, 200, 0.05},
                                         {6000, 1, 1000, 1},
                                         {6000, 80, 6000, 1},
                                         // ssdlite's, by batched_nms: boxes of 90 classes on one line, none or most suppressed
                                         {27000, 1, 27000, 1, 90, true},
                                         {30000, 1, 30000, 1, 1000, true},
                                         {30000, 1, 30000, 1, 1, true},
                                         {27000, 1, 300, 1, 90, true},
                                         {8400, 1, 8400, 1, 1},
                                         {8400, 1, 300, 0.05, 1},
                                         {3000, 90, 3000, 1, 30},
                                         {300, 1, 300, 1, 4},
                                         {100, 1, 100, 1, 1}};
  for (size_t i = first; i < problems.size() && i <= last; ++i) {
    const NmsProblem& q = problems[i];
    const Problem p = nms_problem(q);
    std::vector<Other> others;
    if (q.count > 8192) {  // more than the plain kernels hold: the candidates agree with the first of them
      expect_agreement(p, *ops::offer(bound(p), machine()).candidates.front().prepare(), 0);
      time(p);
      continue;
    }
    for (const bool tested : {false, true}) {
      others.push_back({tested ? "tested, no queue" : "plain", plain_nms_kernel(q.classes, q.count, q.most, tested)});
      expect_agreement(p, *others.back().kernel, 0);
    }
    time(p, std::move(others));
  }
}

void roi_align() {
  for (const DType type : {DType::f32, DType::f16})
    for (const int64_t rois : {512, 1000})
      for (const int64_t sampling : {0, 2}) {
        const Problem p = roi_problem(type, rois, sampling);
        auto kernel = plain_roi_align_kernel(
            ops::roi_align_of(p.node, p.inputs[0].shape(), p.inputs[1].shape(), p.inputs[2].shape()), type);
        expect_agreement(p, *kernel, type == DType::f16 ? 4e-3 : 1e-4);
        time(p, plain(std::move(kernel)));
      }
}

void select() {
  const auto flags = [](int64_t n, int percent) {
    Tensor t = Tensor::empty(DType::boolean, {n});
    std::mt19937 random(3);
    for (int64_t i = 0; i < n; ++i) t.data<bool>()[i] = static_cast<int>(random() % 100) < percent;
    return t;
  };
  const auto counted = [](Problem p) {
    p.node.outputs = {ValueId{9}};
    p.outputs.push_back({DType::i64, {1}, ops::Layout::plain, {}, {}});
    return p;
  };
  for (const int64_t n : {3234, 65536, 1 << 20, 1 << 24})
    time(counted(problem(fmt::format("non_zero bool [{}] 10%", n), "NonZero", {flags(n, 10)}, DType::i64, {1, n})));
  for (const int64_t n : {65536, 1 << 24})
    time(counted(
        problem(fmt::format("compress f32 [{}] 50%", n), "Compress", {random(DType::f32, {n}), flags(n, 50)}, DType::f32, {n})));
  time(counted(problem("compress f16 rows of [20000, 256] 50%", "Compress", {random(DType::f16, {20000, 256}), flags(20000, 50)},
                       DType::f16, {20000, 256}, {{"axis", int64_t{0}}})));
}

}  // namespace smelt::bench
