/*
 * outgoing/reach.h -- the addresses that may be called.
 *
 * A name in the configuration, or an attacker that answers for it in DNS, must not cause a server to send requests to a service
 * of its own machine or network. So link-local addresses, and addresses where clouds give credentials to machines, are refused
 * unless the operator lists them.
 */
#pragma once

#include "base/network.h"

enum outgoing_reach {
    OUTGOING_USUAL,  /* any address except those that are never called */
    OUTGOING_PUBLIC, /* of these, only addresses of the public internet: for addresses that others choose */
    OUTGOING_LISTED, /* only addresses in the listed networks; none if the list is empty */
    OUTGOING_ANY,    /* for a user's own program, which calls the hosts that the user names */
};

bool outgoing_reaches(enum outgoing_reach reach, const struct networks *listed, const struct network *address);
