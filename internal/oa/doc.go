// Package oa is a small office-automation site to try sgclaw on: leave
// requests with a list, detail pages and approve and reject buttons, a report
// with a long table, a log-in page, and a page that tries to talk an agent
// into something. With ?ask=1 a detail page asks with confirm() before it
// sends a decision.
//
// The site keeps a ledger of every POST it gets, so that what an agent really
// did can be told from what it says it did. With a ledger file the ledger is
// written and synced before a POST is answered, and a site that is started
// again on the file goes on where it was, sessions included. Nothing but the
// ledger is stored: the requests' states follow from it.
//
// It is a demonstration and a test bench, not an example of how to build a
// web application: without Config.RequireLogin anybody may decide anything.
package oa
