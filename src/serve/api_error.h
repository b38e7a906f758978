// What is wrong with a request, as OpenAI's API says it:
//   {"error": {"message": ..., "type": "invalid_request_error", "param": "temperature", "code": null}}
#pragma once
#include <string>
#include <utility>

#include "base/error.h"
#include "net/http_message.h"

namespace espalier {

/// An HttpError that knows the field at fault. `param` is its path ("messages[2].content"), empty where there is none;
/// `code` a word for programs ("context_length_exceeded"), empty where there is none.
class ApiError : public HttpError {
 public:
  ApiError(int status, const std::string& message, std::string param = "", std::string code = "")
      : HttpError(status, message), param_(std::move(param)), code_(std::move(code)) {}
  const std::string& param() const { return param_; }
  const std::string& code_word() const { return code_; }

 private:
  std::string param_, code_;
};

/// The response to a failed request: an ApiError's own words; an HttpError's status; the HTTP status of an Error's code
/// (kBadData counts as the request's fault here: 400); 500 without details for any other exception.
HttpResponse error_response(const std::exception& failure);

/// The same for a status and a message; HttpServerOptions::refusal wants it.
HttpResponse error_response(int status, const std::string& message);

}  // namespace espalier
