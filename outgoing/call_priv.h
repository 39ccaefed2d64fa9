/*
 * outgoing/call_priv.h -- shared by the sources of this folder: idle connections, and one exchange.
 */
#pragma once

#include <curl/curl.h>
#include <pthread.h>

#include "outgoing/call.h"

enum {
    OUTGOING_KEPT_MAX = 64, /* idle handles with their connections; further ones are closed */
    OUTGOING_PROXY_SIZE = 512,
    OUTGOING_SOCKET_SIZE = 108, /* sockaddr_un.sun_path */
    OUTGOING_HEAD_MAX = 65536,  /* bytes of an answer's headers, including all interim answers */
};

struct outgoing {
    enum outgoing_reach reach;
    struct networks networks;
    char ca_file[OUTGOING_PATH_SIZE], certificate_file[OUTGOING_PATH_SIZE], key_file[OUTGOING_PATH_SIZE];
    char *ca_text; /* NULL: none */
    char proxy[OUTGOING_PROXY_SIZE];
    char socket[OUTGOING_SOCKET_SIZE];
    bool takes_tls12;

    pthread_mutex_t lock; /* of the fields below */
    CURL *kept[OUTGOING_KEPT_MAX];
    size_t kept_count;
};

/* Shared by the callbacks of one exchange. */
struct exchange {
    const struct outgoing *outgoing;
    const struct outgoing_request *request;
    CURL *curl;
    struct curl_slist *lines; /* the request's headers */
    unsigned requests;        /* how often this request was begun */
    uint64_t head_bytes, body_bytes;
    bool was_dialled;               /* an allowed address was tried */
    char refused[INET6_ADDRSTRLEN]; /* an address that is not allowed; "": none */
    enum outgoing_end end;          /* the reason for which a callback ended the exchange */
    struct result result;           /* of `read` and `take` */
    struct error *err;
};

/** NULL when out of memory. */
CURL *outgoing_take_handle(struct outgoing *outgoing);
void outgoing_give_handle(struct outgoing *outgoing, CURL *curl);

/** Makes the exchange on its prepared handle. */
struct outgoing_outcome outgoing_perform(struct exchange *exchange);

/** Sets all options on the exchange's handle, which was reset, and makes `lines`. */
RESULT outgoing_prepare(struct exchange *exchange);
void outgoing_free_lines(struct curl_slist *lines);

/* Callbacks of libcurl. */
curl_socket_t outgoing_on_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address);
int outgoing_on_begin(void *context, char *peer, char *self, int peer_port, int self_port);
size_t outgoing_on_send(char *destination, size_t size, size_t count, void *context);
size_t outgoing_on_head(char *bytes, size_t size, size_t count, void *context);
size_t outgoing_on_body(char *bytes, size_t size, size_t count, void *context);
int outgoing_on_progress(void *context, curl_off_t to_get, curl_off_t got, curl_off_t to_send, curl_off_t sent);
