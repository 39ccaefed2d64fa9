/*
 * gateway/background/issuer_way.h -- how this gateway calls an issuer: the networks that it may be in, and the authorities that vouch for it.
 */
#pragma once

#include "gateway/settings/settings.h"
#include "outgoing/call.h"

/** By issuer_networks and issuer_ca_file, for issuers without authorities of their own. */
RESULT issuer_way_new(const struct settings *settings, struct outgoing **way_out, struct error *err);
/**
 * *way_out is NULL if the issuer has no file of its own in issuer_ca_folder; else the authorities of this file alone vouch for it. The file is
 * HOST.pem or HOST:PORT.pem, as the issuer's URL says, and is looked for with each call of this function. If it can't be told whether
 * it is there, the issuer can't be called.
 */
RESULT issuer_way_own(const struct settings *settings, const char *url, struct outgoing **way_out, struct error *err);
