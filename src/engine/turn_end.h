// Where a model's turn in a conversation ends.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace espalier {

/// The ids that end an answer, beside the model's own EOS: those of generation_config.json in `folder`, the
/// tokenizer's EOS, the special token that the template puts behind an assistant's message, and those special tokens
/// of the known names ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", ...) that stand in the template. Sorted.
std::vector<int32_t> turn_end_ids(const std::string& folder, const Tokenizer& tokenizer, const ChatTemplate& chat);

}  // namespace espalier
