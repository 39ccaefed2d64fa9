/* What the peers have in common. */
#include <stdarg.h>
#include <stdio.h>

#include "delivery/peer_priv.h"
#include "outgoing/call.h"

struct result peer_outgoing(const struct peer_options *options, struct outgoing **outgoing_out, struct error *err)
{
    const struct outgoing_options rules = {.reach = options->sink->networks.count > 0 ? OUTGOING_LISTED : OUTGOING_USUAL,
                                           .networks = options->sink->networks,
                                           .ca_text = options->sink->ca,
                                           .certificate_file = options->certificate,
                                           .key_file = options->key,
                                           .takes_tls12 = true};

    return outgoing_new(&rules, outgoing_out, err);
}

void peer_refuse(struct peer_outcome *outcome, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(outcome->problem, sizeof outcome->problem, format, arguments);
    va_end(arguments);
    for (char *at = outcome->problem; *at != '\0'; at++)
        if (*at < ' ' || *at > '~') *at = '?'; /* a peer may have written it, and PostgreSQL takes no half a character */
    outcome->is_taken = false;
}
