/* Functions that libcurl calls while it works: they check the address, move bytes, and end the call. */
#include <assert.h>
#include <string.h>
#include <unistd.h>

#include "outgoing/call_priv.h"

/* libcurl connects to exactly this address next, without another lookup. */
curl_socket_t outgoing_on_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct exchange *exchange = context;
    struct network network;

    if (purpose != CURLSOCKTYPE_IPCXN) return CURL_SOCKET_BAD;
    const bool is_local = exchange->outgoing->socket[0] != '\0' && address->family == AF_UNIX;
    if (!is_local && !network_of_socket(&address->addr, &network)) return CURL_SOCKET_BAD;
    if (!is_local && !outgoing_reaches(exchange->outgoing->reach, &exchange->outgoing->networks, &network)) {
        network_write_address(&network, exchange->refused);
        return CURL_SOCKET_BAD;
    }
    exchange->was_dialled = true;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* Of the first certificate of the chain, which is the peer's. */
static bool is_known(const struct exchange *exchange)
{
    static const char title[] = "Cert:";
    const struct outgoing_request *request = exchange->request;
    struct curl_certinfo *chain = NULL;

    if (curl_easy_getinfo(exchange->curl, CURLINFO_CERTINFO, &chain) != CURLE_OK || chain == NULL || chain->num_of_certs < 1)
        return false;
    for (const struct curl_slist *line = chain->certinfo[0]; line != NULL; line = line->next)
        if (strncmp(line->data, title, sizeof title - 1) == 0)
            return request->knows(request->context, bytes_of_text(line->data + sizeof title - 1));
    return false;
}

/* Called before the request is sent. If a kept connection ends before the answer, libcurl sends the request again. A
 * change may have taken effect by then, and a repetition would get another answer, such as "no such tag" for a tag that
 * was just deleted. */
/* NOLINTNEXTLINE(readability-non-const-parameter): libcurl calls it with this type */
int outgoing_on_begin(void *context, char *peer, char *self, int peer_port, int self_port)
{
    struct exchange *exchange = context;

    (void)peer, (void)self, (void)peer_port, (void)self_port;
    if (exchange->request->knows != NULL && !is_known(exchange)) {
        exchange->end = OUTGOING_UNTRUSTED;
        return CURL_PREREQFUNC_ABORT;
    }
    if (exchange->requests++ == 0 || exchange->request->is_repeatable) return CURL_PREREQFUNC_OK;
    exchange->end = OUTGOING_NOT_AGAIN;
    return CURL_PREREQFUNC_ABORT;
}

size_t outgoing_on_send(char *destination, size_t size, size_t count, void *context)
{
    struct exchange *exchange = context;
    const struct outgoing_source *source = exchange->request->source;
    size_t length = 0;

    exchange->result = source->read(source->context, (uint8_t *)destination, size * count, &length, exchange->err);
    if (!exchange->result.ok) return CURL_READFUNC_ABORT;
    assert(length <= size * count);
    return length;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): libcurl calls it with this type */
size_t outgoing_on_head(char *bytes, size_t size, size_t count, void *context)
{
    struct exchange *exchange = context;
    const struct bytes line = {(const uint8_t *)bytes, size * count};

    exchange->head_bytes += line.length;
    if (exchange->head_bytes > OUTGOING_HEAD_MAX) {
        exchange->end = OUTGOING_TOO_LARGE;
        return 0;
    }
    if (exchange->request->head != NULL) exchange->request->head(exchange->request->context, line);
    return line.length;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): libcurl calls it with this type */
size_t outgoing_on_body(char *bytes, size_t size, size_t count, void *context)
{
    struct exchange *exchange = context;
    const struct bytes piece = {(const uint8_t *)bytes, size * count};
    const struct outgoing_request *request = exchange->request;
    long status = 0;

    if (piece.length > request->limits.answer_bytes - exchange->body_bytes) {
        exchange->end = OUTGOING_TOO_LARGE;
        return 0;
    }
    exchange->body_bytes += piece.length;
    (void)curl_easy_getinfo(exchange->curl, CURLINFO_RESPONSE_CODE, &status);
    exchange->result = request->take(request->context, status, piece, exchange->err);
    return exchange->result.ok ? piece.length : 0;
}

/* libcurl calls it at least once a second. */
int outgoing_on_progress(void *context, curl_off_t to_get, curl_off_t got, curl_off_t to_send, curl_off_t sent)
{
    const struct exchange *exchange = context;

    (void)to_get, (void)got, (void)to_send, (void)sent;
    return exchange->request->gives_up != NULL && atomic_load(exchange->request->gives_up) ? 1 : 0;
}
