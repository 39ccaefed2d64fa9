/* gateway/http/exchange_priv.h -- the functions that the files of an exchange share. */
#pragma once

#include <microhttpd.h>

#include "gateway/http/callbacks.h"
#include "gateway/http/connection.h"
#include "gateway/http/metrics.h"
#include "gateway/http/server_priv.h"

/* gateway/http/exchange.c */
void *exchange_begin(void *context, const char *target, struct MHD_Connection *mhd);
void exchange_end(void *server, struct MHD_Connection *mhd, void **request_context, enum MHD_RequestTerminationCode why);
/** Frees the exchange, on a worker if that may block. libmicrohttpd is done with it, and no job runs. */
void exchange_leave(struct http_exchange *exchange);
/** Whether the part of its body that is or will be drained is larger than drain_size_max. */
bool exchange_sends_too_much(const struct http_exchange *exchange);
/** Wipes and frees the gathered body. */
void exchange_drop_body(struct http_exchange *exchange);

/* gateway/http/receive.c */
enum MHD_Result exchange_continue(void *server, struct MHD_Connection *mhd, const char *url, const char *method,
                                  const char *version, const char *data, size_t *data_size, void **request_context);

/* gateway/http/head.c */
/** Copies and checks the head. False: refused. */
bool head_take(struct http_exchange *exchange, const char *method, const char *version, struct http_refusal *refusal_out);

/* gateway/http/send.c */
enum MHD_Result send_answer(struct http_exchange *exchange);
/** Sends the answer past libmicrohttpd, which takes none in the middle of a body. The caller must close the connection. */
void send_directly(struct http_exchange *exchange);
/** Answers a refusal of the head and closes the connection. The rest of the request is not read. */
enum MHD_Result send_refusal(struct http_exchange *exchange, const struct http_refusal *refusal);

/* gateway/http/gather.c */
/** Adds a piece to the gathered body. If there is no memory for it now, the answer says so and the rest is drained. */
enum MHD_Result gather_take(struct http_exchange *exchange, const char *data, size_t *data_size);

/* gateway/http/body_in.c */
/** Copies what fits into the ring. The rest stays in libmicrohttpd's buffer, and the connection is suspended. A receiver ends the body. */
enum MHD_Result body_in_take(struct http_exchange *exchange, const char *data, size_t *data_size);

/* gateway/http/body_out.c */
/** Prepares the ring for an answer. Bytes of a request body that are still in it are dropped. */
void body_out_begin(struct http_exchange *exchange);
/** For libmicrohttpd: the next bytes of the answer's source. */
ssize_t body_out_give(void *context, uint64_t position, char *destination, size_t size);
