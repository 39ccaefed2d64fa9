/*
 * client/address.h -- finds secrets in addresses that people type.
 *
 * curl and git accept "https://USER:SECRET@HOST". Here such an address is refused, and no message repeats it, because messages land in the
 * logs of CI jobs. `sijil login` keeps secrets.
 */
#pragma once

#include "base/bytes.h"

/** True if there is an '@' without a digest after it: the text before it may be a secret. */
bool address_names_user(const char *address);
/** The same for the authority of a URL only (RFC 3986 section 3.2), because its path may have an '@'. False if it is not a URL. */
bool url_names_user(const char *url);
/** ERROR_INVALID; the message has no letter of the address. */
RESULT address_check(const char *address, struct error *err);
/** Removes the user information from all URLs in a text, in place, because other libraries quote whole URLs. */
void address_hide(char *text);
