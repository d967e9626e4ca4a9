from services.provider.command import main

main()
