// Runs an image model once and prints the five largest scores: classify MODEL.onnx
#include <smelt/session.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

int main(int argc, char** argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: classify MODEL.onnx\n"), 2;
  smelt::Session session(argv[1]);

  const smelt::TensorInfo& input = session.inputs().front();
  smelt::Tensor image = smelt::Tensor::zeros(input.type, smelt::to_shape(input.shape));
  for (int64_t i = 0; i < image.size(); ++i) image.data<float>()[i] = static_cast<float>(i % 255) / 127.5f - 1;

  const auto results = session.run({{input.name, image}});
  const smelt::Tensor& scores = results.at(session.outputs().front().name);
  std::vector<int64_t> order(static_cast<size_t>(scores.size()));
  std::iota(order.begin(), order.end(), 0);
  const auto top = order.begin() + std::min<long>(5, static_cast<long>(order.size()));
  std::partial_sort(order.begin(), top, order.end(),
                    [&](int64_t a, int64_t b) { return scores.data<float>()[a] > scores.data<float>()[b]; });
  for (auto i = order.begin(); i != top; ++i)
    std::printf("class %4lld  %.4f\n", static_cast<long long>(*i), scores.data<float>()[*i]);
} catch (const smelt::Error& e) {
  std::fprintf(stderr, "%s\n%s\n", e.what(), e.next().c_str());
  return static_cast<int>(e.code());
}
