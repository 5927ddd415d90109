"""What supervised learning imitates: recorded chats, own rollouts, a scripted solver. All become Segments.

Ids and masks are those that the gateway would have recorded: trained on are the assistant's messages, each with the
token that ends it, and nothing else.
"""
