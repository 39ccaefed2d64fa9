/*
 * client/address.h -- addresses that people type, and the secrets that do not belong in them.
 *
 * curl and git take "https://USER:SECRET@HOST". Here such an address is refused, and no text repeats it: what a program
 * says lands in the log of a CI job. `sijil login` keeps secrets.
 */
#pragma once

#include "base/bytes.h"

/** True if there is an '@' that no digest follows: what stands before it may be a secret. */
bool address_names_user(const char *address);
/** The same of a URL's authority alone (RFC 3986 section 3.2): its path may have an '@'. False for what is no URL. */
bool url_names_user(const char *url);
/** ERROR_INVALID, without a letter of the address. */
RESULT address_check(const char *address, struct error *err);
/** Takes the user information out of all URLs in a text, in place: other libraries quote whole URLs. */
void address_hide(char *text);
