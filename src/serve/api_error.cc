#include "serve/api_error.h"

#include "base/json.h"
#include "base/json_value.h"

namespace espalier {
namespace {

/// OpenAI's names for kinds of failure.
const char* type_of(int status) {
  switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 503: return "unavailable_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

HttpResponse response(int status, const std::string& message, const std::string& param, const std::string& code) {
  const auto or_null = [](const std::string& text) { return text.empty() ? OrderedJson() : OrderedJson(text); };
  const OrderedJson body = {{"error", OrderedJson{{"message", message},
                                                  {"type", type_of(status)},
                                                  {"param", or_null(param)},
                                                  {"code", or_null(code)}}}};
  // What is quoted from a request may be no UTF-8.
  return json_response(status, body.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
}

}  // namespace

HttpResponse error_response(int status, const std::string& message) { return response(status, message, "", ""); }

HttpResponse error_response(const std::exception& failure) {
  if (const auto* api = dynamic_cast<const ApiError*>(&failure))
    return response(api->status(), api->what(), api->param(), api->code_word());
  if (const auto* http = dynamic_cast<const HttpError*>(&failure)) return error_response(http->status(), http->what());
  if (const auto* ours = dynamic_cast<const Error*>(&failure)) {
    const int status = ours->code() == Code::kBadData ? 400 : code_info(ours->code()).http_status;
    return error_response(status, ours->what());
  }
  return error_response(500, "an error inside the server");
}

}  // namespace espalier
