/* gateway/http/exchange_priv.h -- what the parts of an exchange have for each other. */
#pragma once

#include <microhttpd.h>

#include "gateway/http/connection.h"
#include "gateway/http/metrics.h"
#include "gateway/http/server_priv.h"
#include "gateway/http/upper.h"

/* gateway/http/exchange.c */
void *exchange_begin(void *context, const char *target, struct MHD_Connection *mhd);
void exchange_end(void *server, struct MHD_Connection *mhd, void **place, enum MHD_RequestTerminationCode why);
/** libmicrohttpd is done with it and no job runs: frees it, on a worker if that may take time. */
void exchange_leave(struct http_exchange *exchange);
/** What is thrown away of its body, or will be, is more than we are willing to. */
bool exchange_sends_too_much(const struct http_exchange *exchange);
/** Wipes and frees what was gathered. */
void exchange_drop_body(struct http_exchange *exchange);

/* gateway/http/receive.c */
enum MHD_Result exchange_continue(void *server, struct MHD_Connection *mhd, const char *url, const char *method, const char *version,
                                  const char *data, size_t *data_size, void **place);

/* gateway/http/head.c */
/** Copies and checks the head. False: refused. */
bool head_take(struct http_exchange *exchange, const char *method, const char *version, struct http_refusal *refusal_out);

/* gateway/http/send.c */
enum MHD_Result send_answer(struct http_exchange *exchange);
/** In the middle of a body, where libmicrohttpd takes no answer: sends it past libmicrohttpd. The connection must be closed then. */
void send_at_once(struct http_exchange *exchange);
/** For refusals of the head: answers and closes, whatever else was sent. */
enum MHD_Result send_refusal(struct http_exchange *exchange, const struct http_refusal *refusal);

/* gateway/http/gather.c */
/** Takes what came. Where there is no memory for it now, the answer says so and the rest is drained. */
enum MHD_Result gather_take(struct http_exchange *exchange, const char *data, size_t *data_size);

/* gateway/http/body_in.c */
/** Takes what fits; the rest stays in libmicrohttpd's buffer and the connection is suspended. At the end a mover finishes. */
enum MHD_Result body_in_take(struct http_exchange *exchange, const char *data, size_t *data_size);

/* gateway/http/body_out.c */
/** The ring is for an answer from now on; what a body that came in left there is dropped. */
void body_out_begin(struct http_exchange *exchange);
/** For libmicrohttpd: the next bytes of the answer's source. */
ssize_t body_out_give(void *context, uint64_t position, char *place, size_t size);
