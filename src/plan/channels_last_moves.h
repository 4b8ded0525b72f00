// Movement around channels-last images that is expressed where they lie: Reshape and its like, and Transpose.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "plan/segment.h"

namespace smelt::plan {

/// Of a pass over layouts on the processor, which places steps in their order.
///   - What leaves the elements where they are is a view: an image flattened to [N, C, pixels], and that turned to [N, pixels, C]; and the
///     other way about, where a reader wants a channels-last image.
///   - Reshape, Transpose, Reshape of the channels (a shuffle of groups) is one copy that permutes them within each pixel.
///   - Any other Transpose reads the image as it lies.
class ChannelsLastMoves {
 public:
  /// Whether some kernel that is allowed runs the step with these tensors.
  using Runs = std::function<bool(const Step&, const ops::BoundNode&)>;
  /// Whether a step reads and writes channels-last images of its own accord, or where its input is one.
  using Wants = std::function<bool(const Step&)>;

  /// Frees the tensors that only such views held plain. `plain`: nodes that are left as they are.
  ChannelsLastMoves(Segment& s, const std::vector<Step>& steps, const std::set<NodeId>& plain, Runs runs, Wants makes_images,
                    Wants follows);

  /// True where the step, which has not been placed yet, was set to move what lies channels-last, or to make it; as it is
  /// otherwise.
  bool follow(Step& step);
  /// Whether a channels-last image there would meet a kernel that wants one.
  bool is_wanted(TensorIndex t) { return is_wanted(t, most_steps); }
  /// The tensors that lie with strides of their own.
  const std::map<TensorIndex, Shape>& strided() const { return strided_; }

 private:
  bool is_move(const Step& step) const;
  bool is_free(TensorIndex t) const;
  /// A batch of channels along one to three axes whose bytes are not the same either way.
  bool is_image(TensorIndex t) const;
  void free_views(const std::vector<Step>& steps);
  /// The only step that reads it.
  const Step* only_reader(TensorIndex t) const;
  static constexpr int most_steps = 12;  // that are looked at between an image and a kernel
  bool is_wanted(TensorIndex t, int depth);
  /// Where the step's output lies if it is a view of an input with these strides.
  std::optional<Shape> view(const Step& step, const Shape& from) const;
  bool is_plain(TensorIndex t, const Shape& strides) const;
  bool is_channels_last(TensorIndex t, const Shape& strides) const;
  bool become_view(Step& step, const Shape& strides);
  bool begin_shuffle(Step& step, const Shape& strides);
  bool transpose(Step& step);

  Segment& s_;
  const std::set<NodeId>& plain_;
  Runs runs_;
  Wants makes_images_, follows_;
  std::vector<bool> held_;                         // by tensor: plain for another reason than a view
  std::vector<std::vector<const Step*>> readers_;  // by tensor; of steps as they were
  std::map<TensorIndex, bool> wanted_;
  std::map<TensorIndex, Shape> strided_;
};

}  // namespace smelt::plan
