// What a step wants of its images: channels-last, plain, or whatever they are.
#pragma once

#include <cstdint>

#include "plan/segment.h"

namespace smelt::plan {

/// How a step reads its images, and how it makes them.
enum class Role : uint8_t {
  plain,
  image,    // channels-last in and out
  follows,  // whatever its inputs are, all the same
  reads,    // whatever its inputs are; its result, of other extents, may lie either way
};

/// A batch of channels along one to three axes.
bool is_image(const ops::BoundTensor& t);
bool is_quantized_conv(const Node& n);
bool is_reorder(const Node& n);
bool is_channel_concat(const Segment& s, const Step& step);
/// Statistics over the pixels of each channel.
bool is_instance_norm(const Step& step);
/// Nearest ones move whole pixels; the offer of others takes plain images only.
bool is_resize(const Node& n);
bool is_part(const Node& n);
/// Those whose kernels on the processor fold an image as it lies.
bool is_reduction(const Node& n);
/// Pixels to channels, channels to pixels, and repeats: copies by strides.
bool is_block_move(const Node& n);
/// Those which make a plain image of a channels-last one as well as of a plain one: what comes to lie side by side did so before.
bool turns_well(const Node& n);
/// Convolutions that a channels-last kernel may take (ops/conv); whether one does, its offer tells.
bool is_image_conv(const Segment& s, const Step& step, bool on_gpu);
bool is_image_pool(const Segment& s, const Step& step);
Role role(const Segment& s, const Step& step, bool on_gpu);

}  // namespace smelt::plan
